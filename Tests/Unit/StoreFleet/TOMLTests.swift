import Testing

@testable import StoreFleet

@Suite("The subset of TOML")
struct TOMLTests {
    private func values(_ text: String) throws -> [String: TOMLDocument.Value] {
        let entries = try TOMLDocument(text).tables.flatMap(\.entries)
        return Dictionary(uniqueKeysWithValues: entries.map { ($0.key, $0.value) })
    }

    @Test("all values of the subset are read")
    func readsValues() throws {
        let found = try values(
            """
            # a comment
            basic = "a \\"b\\" \\\\ \\t \\u00e4 \\U0001F600 # no comment"  # a comment
            literal = 'C:\\x "q"'
            number = -1_000
            plus = +7
            zero = 0
            yes = true
            no = false
            list = [ "a", 'b', # inside
              "c",
            ]
            empty = []
            nested = [[1, 2], ["x"]]

            """)
        #expect(found["basic"] == .string("a \"b\" \\ \t ä 😀 # no comment"))
        #expect(found["literal"] == .string("C:\\x \"q\""))
        #expect(found["number"] == .integer(-1000) && found["plus"] == .integer(7) && found["zero"] == .integer(0))
        #expect(found["yes"] == .boolean(true) && found["no"] == .boolean(false) && found["empty"] == .array([]))
        #expect(found["list"] == .array([.string("a"), .string("b"), .string("c")]))
        #expect(found["nested"] == .array([.array([.integer(1), .integer(2)]), .array([.string("x")])]))
    }

    @Test("tables and arrays of tables keep their order and their places, with any end of line")
    func tables() throws {
        let document = try TOMLDocument(
            "\u{feff}a = 1\r\n[defaults]\r\nb = 2\r\n[[stores]]\nc = 3\n  [[ stores ]]\nc = 4")
        #expect(document.tables.map(\.name) == ["", "defaults", "stores", "stores"])
        #expect(document.tables.map(\.isElement) == [false, false, true, true])
        #expect(document.tables[3].position == TextPosition(line: 6, column: 3))
        #expect(document.tables[0].entries[0].position == TextPosition(line: 1, column: 1))
        #expect(document.tables[1].entries[0].valuePosition == TextPosition(line: 3, column: 5))
        #expect(try TOMLDocument("").tables.count == 1 && TOMLDocument("# x").tables.count == 1)
    }

    @Test(
        "a mistake is named with its line and column",
        arguments: [
            ("a 1", 1, 3, "Expected \"=\" after the key \"a\""), ("a = ", 1, 5, "Expected a value"),
            ("a = x", 1, 5, "Expected a value"), ("\na = \"x", 2, 5, "not closed"),
            ("a = \"x\ny\"", 1, 5, "not closed in its line"), ("a = 'x", 1, 5, "not closed"),
            ("a = 1 b = 2", 1, 7, "Expected the end of the line"), ("a = 1\na = 2", 2, 1, "twice, first in line 1"),
            ("[a]\n[a]", 2, 1, "twice, first in line 1"), ("[[a]]\n[a]", 2, 1, "twice"), ("[a", 1, 3, "Expected \"]\""),
            ("[[a]", 1, 5, "Expected \"]\""), ("[a.b]", 1, 3, "Dotted keys"), ("a.b = 1", 1, 2, "Dotted keys"),
            ("\"a\" = 1", 1, 1, "Expected a key"), ("a = {b = 1}", 1, 5, "Inline tables"),
            ("a = \"\"\"x\"\"\"", 1, 5, "several lines"), ("a = '''x'''", 1, 5, "several lines"),
            ("a = 1.5", 1, 5, "decimal integer"), ("a = 0x1f", 1, 5, "decimal integer"),
            ("a = 2026-11-28", 1, 5, "decimal integer"), ("a = 12h", 1, 5, "decimal integer"),
            ("a = 007", 1, 5, "leading zero"), ("a = 1__0", 1, 6, "between two digits"), ("a = 1_", 1, 6, "between"),
            ("a = -", 1, 5, "no digits"), ("a = 99999999999999999999", 1, 5, "too many"),
            ("a = truely", 1, 5, "true and false"),
            ("a = [1 2]", 1, 8, "Expected \",\" or \"]\""), ("a = [1,", 1, 8, "Expected a value"),
            ("a = [[[[[1]]]]]", 1, 9, "nested too deeply"), ("a = \"\\x\"", 1, 8, "no such escape"),
            ("a = \"\\ud800\"", 1, 8, "no character"), ("a = \"\\u12\"", 1, 8, "escape"),
            ("a = \"\u{7}\"", 1, 6, "control"),
            ("# \u{0}", 1, 3, "control"), ("a = 1\rb = 2", 1, 6, "carriage return"), ("= 1", 1, 1, "Expected a key"),
        ])
    func mistakes(_ text: String, _ line: Int, _ column: Int, _ part: String) throws {
        let error = #expect(throws: TOMLError.self) { try TOMLDocument(text) }
        let found = try #require(error)
        #expect(found.position == TextPosition(line: line, column: column), "\(text.debugDescription): \(found)")
        #expect(found.sentence.contains(part), "\(text.debugDescription): \(found)")
    }

    @Test("no beginning of a file, and no file with a byte replaced, ends the program")
    func damaged() {
        let text = Array("jobs = 2\n[defaults]\nkey-file = \"/k\\u0041\"\n[[stores]]\npath = ['/a', \"/b\"]\n".utf8)
        for count in text.indices {
            _ = try? TOMLDocument(String(decoding: text.prefix(count), as: UTF8.self))
            for byte: UInt8 in [0, 0x22, 0x27, 0x5b, 0x5d, 0x5c, 0x0d, 0xff] {
                var changed = text
                changed[count] = byte
                _ = try? TOMLDocument(String(decoding: changed, as: UTF8.self))
            }
        }
    }
}
