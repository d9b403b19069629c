import Foundation
import StoreCrypto
import Testing

@testable import ChangesetSync

@Suite("Docs/Formats/Changeset.md")
struct ChangesetDocumentTests {
    typealias F = DeltaFixture

    private static let text = try! String(
        contentsOf: DeltaFixture.root.appending(path: "Docs/Formats/Changeset.md"), encoding: .utf8)

    /// The parts of the text below a mark.
    private func example(_ mark: String, separator: String) throws -> [String] {
        let parts = Self.text.components(separatedBy: "<!-- \(mark) -->\n```\n")
        let block = try #require(parts.count == 2 ? parts[1].components(separatedBy: "\n```").first : nil)
        return block.components(separatedBy: separator)
    }

    /// The bytes below a mark.
    private func example(_ mark: String) throws -> [UInt8] {
        Array(F.bytes(try example(mark, separator: "\n").joined()))
    }

    private func rows() -> [[String]] {
        Self.text.split(separator: "\n").filter { $0.hasPrefix("|") }.map { line in
            line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                .map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    /// The delta of the example, made row by row.
    private func delta() throws -> Delta {
        let states: [(DeltaRecord?, DeltaRecord?)] = [
            (nil, F.row(.integer(3), .string("Zoë"), .null)),
            (F.row(.integer(1), .string("A"), .integer(10)), F.row(.integer(1), .string("A"), .integer(11))),
            (F.row(.integer(2), .string("Ben"), .integer(20)), nil),
        ]
        let changes = try states.compactMap { try F.player.change(from: $0.0, to: $0.1) }
        return try Delta([TableDelta(table: F.player, changes: changes)])
    }

    @Test("the code makes the bytes of the example")
    func example() throws {
        let delta = try delta()
        #expect(try example("delta") == delta.encoded())
        let commit = Commit(
            kind: .ordinary, parents: [], generation: 1, author: try #require(AuthorID(bytes: 0xa0...0xaf)),
            authorSequence: 1, time: try HybridTime(wallClock: 1_700_000_000_000, after: []),
            schema: try #require(SchemaID(bytes: 0xb0...0xbf)), meta: "{}",
            digests: [try #require(TableDigest(table: "player", bytes: 0xc0...0xcf))], deltas: [delta.encoded()[...]])
        #expect(try example("commit") == commit.encoded())
        let key = SecretBytes(copying: [UInt8](0..<32))
        let code = try MessageAuthentication.hmac(.sha256, key: key, commit.encoded())
        #expect(try example("identifier") == code)
    }

    @Test("the digest of the example is that of its rows, whatever their order")
    func exampleDigest() throws {
        let lines = try example("digest", separator: "\n")
        try #require(lines.count == 3)
        let key = try RepositoryKey(
            repository: try #require(RepositoryID(bytes: 0xa0...0xaf)), epoch: 1,
            secret: SecretBytes(copying: [UInt8](0..<32)))
        let rows = [
            F.row(.integer(1), .string("Ann"), .integer(11)), F.row(.integer(3), .string("Zoë"), .null),
        ]
        var digest = RowDigest()
        for (row, line) in zip(rows, lines) {
            var own = RowDigest()
            try own.add(row, key)
            #expect(line.split(separator: " ").map(String.init) == [F.hex(row.bytes), F.hex(own.bytes)])
        }
        for row in rows.reversed() { try digest.add(row, key) }
        #expect(lines[2].trimmingCharacters(in: .whitespaces) == F.hex(digest.bytes))
    }

    @Test("the table of the example names each byte of it")
    func exampleOffsets() throws {
        let bytes = try example("delta")
        var next = 0
        for row in rows() where row.count == 3 && row[1].hasPrefix("`") && Int(row[0]) != nil {
            let part = Array(F.bytes(row[1].trimmingCharacters(in: ["`"])))
            #expect(Int(row[0]) == next, "\(row)")
            #expect(bytes.dropFirst(next).prefix(part.count) == part[...], "\(row)")
            next += part.count
        }
        #expect(next == bytes.count)
    }

    @Test("offsets, codes and bounds are those of the code")
    func constants() throws {
        let rows = rows()
        let offsets = [
            "DeltaBody.versionOffset": DeltaBody.versionOffset,
            "DeltaBody.tableCountOffset": DeltaBody.tableCountOffset,
            "Commit.Offset.version": Commit.Offset.version, "Commit.Offset.kind": Commit.Offset.kind,
            "Commit.Offset.parentCount": Commit.Offset.parentCount, "Commit.Offset.parents": Commit.Offset.parents,
        ]
        var documented: [String: Int] = [:]
        for row in rows where row.count == 4 && row[2].hasPrefix("`") {
            documented[row[2].trimmingCharacters(in: ["`"])] = Int(row[0])
        }
        #expect(documented == offsets)
        let classes = rows.filter { $0.count == 3 && $0[0].hasPrefix("0x") }.map { String($0[0].dropFirst(2)) }
        let codes = [Cell.undefined, Cell.integer, Cell.real, Cell.text, Cell.blob, Cell.null]
        #expect(classes == codes.map { F.hex([$0]) })
        let operations: [(String, RowChange.Operation)] = [
            ("inserted", .insert), ("updated", .update), ("deleted", .delete),
        ]
        for (name, operation) in operations {
            let isNamed = Self.text.contains("0x\(F.hex([operation.rawValue])) \(name)")
            #expect(isNamed, "\(name)")
        }
        let kinds: [(String, Commit.Kind)] = [("ordinary", .ordinary), ("merge", .merge), ("checkpoint", .checkpoint)]
        for (name, kind) in kinds {
            let isNamed = Self.text.contains("\(kind.rawValue) \(name)")
            #expect(isNamed, "\(name)")
        }
        for bound in [
            "\(Varint.limit)", "1 to \(Limits.columns)", "1 to \(Limits.keyColumns)", "\(Limits.commitMetaBytes) bytes",
            "\(Limits.deltaBytes) bytes", "\(Int64.max)",
        ] {
            let isNamed = Self.text.contains(bound)
            #expect(isNamed, "\(bound)")
        }
    }
}
