import Foundation
import TestKit
import Testing

/// The vectors of Keys/conformance (Docs/Formats/Vector.md), read by this package's own code. `make conformance`
/// compares its verdicts with those of an implementation in Python.
@Suite("Conformance vectors")
struct VectorTests {
    @Test("each vector of a kind has the expected verdict", arguments: ConformanceVector.kinds)
    func verdicts(kind: String) throws {
        let names = try ConformanceVector.names(in: VectorReader.folder).filter { $0.hasPrefix(kind + "/") }
        #expect(!names.isEmpty)
        let outcomes = try VectorReader.outcomes(names)
        let wrong = outcomes.filter { !$0.agrees }.map {
            "\($0.vector): \($0.verdict) \($0.results), not \($0.expected)"
        }
        #expect(wrong.isEmpty, "\(wrong.joined(separator: "\n"))")
        try record(outcomes, kind)
    }

    /// Writes the verdicts into the folder that CIPHERSTORE_VERDICTS names, for a comparison with another reader.
    private func record(_ outcomes: [VectorReader.Outcome], _ kind: String) throws {
        guard let folder = ProcessInfo.processInfo.environment["CIPHERSTORE_VERDICTS"] else { return }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let lines = try outcomes.map { try encoder.encode($0) + Data("\n".utf8) }
        try Data(lines.joined()).write(to: URL(filePath: folder).appending(path: "\(kind).jsonl"))
    }

    @Test("the manifest has the verdict of each vector, and each folder is a kind")
    func manifest() throws {
        struct Manifest: Decodable {
            struct Entry: Decodable {
                var file: String
                var expectation: String
            }
            var files: [Entry]
        }
        let data = try Data(contentsOf: VectorReader.root.appending(path: "Keys/manifest.json"))
        let listed = try JSONDecoder().decode(Manifest.self, from: data).files.filter { $0.file.hasSuffix(".vector") }
        let names = try ConformanceVector.names(in: VectorReader.folder)
        #expect(listed.map(\.file).sorted() == names.map { "conformance/\($0).vector" }.sorted())
        for entry in listed {
            let name = String(entry.file.dropFirst("conformance/".count).dropLast(".vector".count))
            let vector = try ConformanceVector(name, in: VectorReader.folder)
            #expect(vector.expect == entry.expectation && name.hasPrefix(vector.kind + "/"), "\(name)")
        }
        let folders = try FileManager.default.contentsOfDirectory(atPath: VectorReader.folder.path)
        #expect(folders.sorted() == ConformanceVector.kinds)
    }

    private static let head = "cipherstore-vector: 1\nkind: page\nexpect: ok\ncomment: test\n"

    /// The part that follows the headers above, and why it makes no vector.
    static let faults: [(text: String, error: ConformanceVector.FormError)] = [
        ("", .noEmptyLine),
        ("colour: blue\n\n", .unknownHeader("colour")),
        ("result_colour: blue\n\n", .unknownHeader("result_colour")),
        ("kind: wal\n\n", .repeatedHeader("kind")),
        ("no colon\n\n", .malformed(line: "no colon")),
        ("file: page 4\n\nabc", .outOfRange(line: "page 4")),
        ("file: page 2\n\nabc", .unnamedBytes(1)),
        ("file: page -1\n\n", .malformed(line: "file: page -1")),
        ("file: page 99999999999999999999\n\n", .malformed(line: "file: page 99999999999999999999")),
        ("flip: page 0 bit 0\n\n", .noSuchPart("page")),
        ("remove: page\n\n", .noSuchPart("page")),
        ("file: page 1\nflip: page 1 bit 0\n\na", .outOfRange(line: "flip: page 1 bit 0")),
        ("file: page 1\nflip: page 0 bit 8\n\na", .outOfRange(line: "flip: page 0 bit 8")),
        ("file: page 1\ntruncate: page to 2\n\na", .outOfRange(line: "truncate: page to 2")),
        ("file: page 1\nwrite: page 0 0g\n\na", .malformed(line: "write: page 0 0g")),
        ("file: page 1\nzeros: page 999999999999\n\na", .outOfRange(line: "zeros: page 999999999999")),
        ("file: page 1\nswap: page 0 with 1 length 1\n\na", .outOfRange(line: "swap: page 0 with 1 length 1")),
        ("base: page/no-such-vector\n\n", .unreadable("page/no-such-vector")),
        ("base: page/other-key\n\n", .baseOfBase("page/4096-header32-page-2")),
        ("use: page from page/4096-header32-page-2 wal\n\n", .noSuchPart("wal")),
    ]

    @Test("a file that is no vector is refused with the reason", arguments: faults.indices)
    func malformed(index: Int) throws {
        let (text, error) = Self.faults[index]
        #expect(throws: error) {
            try ConformanceVector("page/test", Array((Self.head + text).utf8), in: VectorReader.folder)
        }
    }

    @Test("a file that does not begin as a vector is refused")
    func otherFiles() throws {
        let others: [(text: String, error: ConformanceVector.FormError)] = [
            ("cipherstore-vector: 2\nkind: page\n\n", .noFirstLine),
            ("kind: page\ncipherstore-vector: 1\n\n", .noFirstLine), ("\n\n", .malformed(line: "")), ("", .noEmptyLine),
        ]
        for (text, error) in others {
            #expect(throws: error) {
                try ConformanceVector("page/test", Array(text.utf8), in: VectorReader.folder)
            }
        }
    }

    @Test("each line of a recipe does what the document says")
    func recipe() throws {
        func part(_ lines: String) throws -> String {
            let text = Self.head + "file: page 6\n\(lines)\n\nabcdef"
            let vector = try ConformanceVector("page/test", Array(text.utf8), in: VectorReader.folder)
            return String(decoding: try vector.part("page"), as: UTF8.self)
        }
        #expect(try part("flip: page 0 bit 1") == "cbcdef")
        #expect(try part("write: page 1 5858") == "aXXdef")
        #expect(try part("truncate: page to 2") == "ab")
        #expect(try part("append: page 58") == "abcdefX")
        #expect(try part("zeros: page 2") == "abcdef\0\0")
        #expect(try part("zeros-at: page 1 length 2") == "a\0\0def")
        #expect(try part("swap: page 0 with 4 length 2") == "efcdab")
        #expect(try part("delete: page 1 length 4") == "af")
        #expect(try part("append: page 58\nflip: page 6 bit 0") == "abcdefY")
        #expect(try part("remove: page\nuse: page from recovery/hexadecimal text").utf8.count == 64)
        #expect(try part("take: page 0 length 3 from recovery/line-repeated text 4").dropFirst(3) == "def")
    }
}
