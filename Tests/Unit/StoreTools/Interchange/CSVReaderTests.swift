import Testing

@testable import StoreTools

@Suite("CSV reader")
struct CSVReaderTests {
    /// Reads a text in pieces of so many bytes.
    private func records(_ bytes: [UInt8], pieceBytes: Int, separator: Character = ",") throws -> [String] {
        var position = 0
        var reader = CSVReader(separator: separator.asciiValue ?? 0) { buffer in
            let count = min(pieceBytes, buffer.count, bytes.count - position)
            buffer.copyBytes(from: bytes[position..<(position + count)])
            position += count
            return count
        }
        var found: [String] = []
        while let (record, line) = try reader.nextRecord() {
            switch record {
            case .fields(let fields):
                found.append("\(line): " + fields.map { $0.isQuoted ? "<\($0.text)>" : $0.text }.joined(separator: "|"))
            case .malformed(let fault): found.append("\(line): \(fault)")
            }
        }
        return found
    }

    private static let cases: [(text: String, records: [String])] = [
        ("", []),
        ("a,b\n1,2\n", ["1: a|b", "2: 1|2"]),
        ("a,b\r\n1,2\r\n", ["1: a|b", "2: 1|2"]),
        ("a,b\r1,2", ["1: a|b", "2: 1|2"]),
        ("\u{feff}a\n", ["1: a"]),
        ("a,,\"\"\n", ["1: a||<>"]),
        ("\"a,\"\"b\"\"\n\r\nc\",d\ne", ["1: <a,\"b\"\n\r\nc>|d", "4: e"]),
        ("5\" pipe,x\n", ["1: 5\" pipe|x"]),
        ("\"a\"b,c\nd\n", ["1: textAfterQuote", "2: d"]),
        ("a\n\"b\nc\n", ["1: a", "2: openQuote"]),
        ("\n\na\n", ["1: ", "2: ", "3: a"]),
        ("a\0b\nc\n", ["1: containsNUL", "2: c"]),
    ]

    @Test("records and their lines do not depend on the pieces in which a file is read")
    func pieces() throws {
        for (text, expected) in Self.cases {
            // A byte order mark comes in the first piece of a file.
            for pieceBytes in [3, 4, 5, 1000] {
                #expect(try records(Array(text.utf8), pieceBytes: pieceBytes) == expected, "\(text.debugDescription)")
            }
        }
    }

    @Test("a line that is not UTF-8 is bad, and the next one is read")
    func encoding() throws {
        #expect(try records([0xff, 0xfe, 0x0a, 0x61, 0x0a], pieceBytes: 2) == ["1: notUTF8", "2: a"])
        #expect(try records(Array("a;b,c\n".utf8), pieceBytes: 9, separator: ";") == ["1: a|b,c"])
    }

    @Test("a record of more fields than SQLite has parameters is bad, and memory is bounded")
    func fields() throws {
        let many = [UInt8](repeating: UInt8(ascii: ","), count: ToolLimits.csvFields + 10)
        #expect(try records(many + Array("\nb\n".utf8), pieceBytes: 5000) == ["1: tooManyFields", "2: b"])
    }

    @Test("what SQLite reads as a whole number or a real is a number")
    func numbers() {
        for text in ["0", "-5", "+1.5", ".5", "5.", "1e9", "1.5E-3", " 7 "] {
            #expect(CSVImport.isNumber(text), "\(text)")
        }
        for text in ["", ".", "e5", "1e", "1 2", "0x10", "12a", "1,5", "--1"] {
            #expect(!CSVImport.isNumber(text), "\(text)")
        }
    }
}
