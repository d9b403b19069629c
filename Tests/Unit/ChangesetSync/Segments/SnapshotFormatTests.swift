import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("The bytes of a snapshot (Docs/Formats/Snapshot.md)")
struct SnapshotFormatTests {
    private func time(_ second: Int64) -> HybridTime { HybridTime(wallClock: 1_800_000_000_000 + 1_000 * second) }

    /// The items of the example.
    private func items() throws -> [SnapshotItem] {
        let author = try #require(ReplicaID(bytes: 1...16))
        let hashes = try [0x81, 0x82].map { byte in
            try #require(CommitHash(bytes: [UInt8](repeating: byte, count: 32)))
        }
        let stamp = LocalStamp(era: 0, commit: 1)
        var row = BaseRow(born: stamp)
        row.cells[1] = BaseRow.BaseCell(stamp: stamp, value: .string("a"))
        return [
            .head(time: time(1)), .author(author),
            .commit(.init(author: 1, number: 1, hash: hashes[0], parent: 0, time: time(0), beginsBranch: false)),
            .commit(.init(author: 1, number: 2, hash: hashes[1], parent: 1, time: time(1), beginsBranch: false)),
            .table("t"), .column(table: 1, ColumnID("x")), .vector([2]), .vector([1]),
            .state(.init(vector: 1, contexts: [.init(of: 2, vector: 2)], removed: [])),
            .key(.init(table: 1, key: RowKey(7), rows: [.init(incarnation: 1, row: row)], dead: [])),
            .key(
                .init(
                    table: 1, key: RowKey(8), rows: [],
                    dead: [.init(incarnation: 1, known: 2, tombstone: Tombstone(seen: [2]))])),
        ]
    }

    private func bytes(_ items: [SnapshotItem]) -> [UInt8] {
        var buffer = SnapshotBuffer(partBytes: .max)
        for item in items { buffer.append(item) }
        return buffer.take() ?? []
    }

    /// Reads whole items; returns them encoded again.
    private func read(_ parts: [[UInt8]]) throws -> [[UInt8]] {
        var (reader, found) = (SnapshotReader(), [[UInt8]]())
        while let (item, _) = try reader.next({ $0 < parts.count ? parts[$0] : nil }) { found.append(item.bytes) }
        return found
    }

    @Test("the code makes the example and reads it, in parts of any length")
    func example() throws {
        let root = (0..<5).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let text = try String(contentsOf: root.appending(path: "Docs/Formats/Snapshot.md"), encoding: .utf8)
        let block = try #require(text.components(separatedBy: "<!-- snapshot -->\n```\n").last)
            .components(separatedBy: "\n```")[0]
        let expected = block.split(separator: "\n").flatMap { line in
            line.split(separator: " ").dropFirst().flatMap { TestKeys.bytes(String($0)) }
        }
        let items = try items()
        #expect(bytes(items) == expected)
        for partBytes in [1, 2, 3, 16, 100, 1_000] {
            var (buffer, parts) = (SnapshotBuffer(partBytes: partBytes), [[UInt8]]())
            for item in items {
                buffer.append(item)
                while buffer.isFull, let part = buffer.take() { parts.append(part) }
            }
            while let part = buffer.take() { parts.append(part) }
            #expect(parts.joined().elementsEqual(expected))
            #expect(parts.dropLast().allSatisfy { $0.count == partBytes })
            #expect(try read(parts) == items.map(\.bytes))
        }
    }

    @Test("a snapshot that ends early, or has items in another order, is refused")
    func order() throws {
        let items = try items()
        for count in 0..<9 { #expect(throws: CommitError.self) { try read([bytes(Array(items[..<count]))]) } }
        for count in 9...items.count { #expect(try read([bytes(Array(items[..<count]))]).count == count) }
        for place in items.indices {
            for other in items.indices where other > place {
                var swapped = items
                swapped.swapAt(place, other)
                // Items that do not refer to each other may stand in either order.
                if [[3, 4], [5, 6], [5, 7], [6, 7]].contains([place, other]) { continue }
                #expect(throws: CommitError.self, "\(place) and \(other)") { try read([bytes(swapped)]) }
            }
        }
        #expect(throws: CommitError.self) { try read([bytes(items + [items[10]])]) }
    }

    @Test("damaged bytes are refused or read, and end no process")
    func damaged() throws {
        let (whole, seed) = (bytes(try items()), Seed())
        for index in 0..<3_000 {
            var numbers = seed.numbers(index)
            var content = whole
            for _ in 0..<Int.random(in: 1...3, using: &numbers) {
                let place = Int.random(in: content.indices, using: &numbers)
                switch Int.random(in: 0..<3, using: &numbers) {
                case 0: content[place] = UInt8.random(in: 0...255, using: &numbers)
                case 1: content.remove(at: place)
                default: content.insert(UInt8.random(in: 0...255, using: &numbers), at: place)
                }
            }
            do { _ = try read([content]) } catch is CommitError {}
        }
    }

    @Test("a snapshot that is received and cannot be joined is refused, named, and holds nothing back")
    func refused() throws {
        let folder = TemporaryFolder()
        let device = try Device(folder.path("a.db"))
        let store = try device.repository.store()
        let vector = VersionVector([
            AuthorTips(author: try #require(ReplicaID(bytes: 1...16)), tips: [Tip(number: 2, tag: .zero)])
        ])
        let manifest = try SnapshotManifest(
            store.repository, time: time(0), vector: vector, parts: ["00", "01"], by: store.keys)
        let half = bytes(Array(try items()[..<9]))
        #expect(throws: ObjectError.self) { try store.receive(manifest) { _ in half } }
        #expect(try device.count("part") == 0 && device.count("received") == 0)
        struct Failure: Error {}
        #expect(throws: Failure.self) {
            try store.receive(manifest) { number in
                if number == 1 { throw Failure() }
                return half
            }
        }
        #expect(try device.count("part") == 0)
        // Whole by its form, damaged in the store.
        try store.receive(manifest) { number in number == 0 ? half : [] }
        #expect(try !store.lacks(vector))
        try device.writeOwnRows("UPDATE cipherstore_repository_part SET content = x'0000'")
        try device.repository.join()
        #expect(try device.pool.read { try ReceivedSnapshots(db: $0).refusedVectors().count } == 1)
        try device.write("INSERT INTO player VALUES (1, 'Ann', 1)")
        #expect(try device.rows() == ["player 1 Ann 1"])
    }
}
