import CipherStore
import Foundation
import StoreCrypto
import TestKit
import Testing

@testable import StoreBackups

/// `Keys/generators/read_backups.py`, written from the document alone, reads what the library writes.
@Suite("A repository read by another implementation") struct IndependentRestorationTests {
    private static let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
    private static let script = root.appending(path: "Keys/generators/read_backups.py").path

    private static let replicas = root.appending(path: "Keys/generators/read_replicas.py").path

    static let isPossible = (try? run(["-c", "pass"]).status) == 0

    private static func run(_ arguments: [String]) throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-B"] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: data, as: UTF8.self))
    }

    @Test("it lists backups and restores each of them", .enabled(if: isPossible, "there is no python3"))
    func restores() throws {
        let fixture = try RepositoryFixture(rows: 100)
        var contents: [[String]] = []
        for _ in 0..<3 {
            try fixture.change(oneIn: 10)
            contents.append(try RepositoryFixture.content(fixture.store))
            try fixture.repository.backUp(fixture.store)
        }
        let listed = try Self.run([Self.script, fixture.place])
        #expect(listed.status == 0)
        let backups = try fixture.repository.backups()
        let lines = listed.output.split(separator: "\n")
        #expect(lines.count == 3 && zip(lines, backups).allSatisfy { $0.contains("\"\($1.id)\"") })
        for (number, backup) in backups.enumerated() {
            let out = fixture.folder.path("out\(number).db")
            #expect(try Self.run([Self.script, fixture.place, "--restore", "\(backup.id)", out]).status == 0)
            let store = try SharedStore.open(at: out, unlockedBy: TestKeys.source("raw"))
            defer { try? store.close() }
            #expect(try RepositoryFixture.content(store) == contents[number])
        }
        let pack = try #require(backups[0].record.packs.first)
        try fixture.flip(fixture.place + "/" + ObjectKind.pack.name(pack), at: 9000)
        let bad = fixture.folder.path("bad.db")
        #expect(try Self.run([Self.script, fixture.place, "--restore", "\(backups[0].id)", bad]).status == 1)
    }

    // `Keys/generators/read_replicas.py`, from Docs/Formats/Replica.md alone.
    @Test("it lists a replica and restores a time of it", .enabled(if: isPossible, "there is no python3"))
    func restoresTimes() throws {
        let fixture = try RepositoryFixture(rows: 30)
        var contents: [[String]] = []
        for _ in 0..<3 {
            try fixture.change(oneIn: 10)
            contents.append(try RepositoryFixture.content(fixture.store))
            passTime(2)
            try fixture.replicate()
        }
        let head = try fixture.repository.replicaHead(of: #require(try fixture.repository.replicas().first).storeID)
        let times = try (0..<3).map { number in
            try fixture.repository.replicaHeader(ReplicaName(#require(head).name.storeID, base: 1, segment: number))
                .until
        }
        let listed = try Self.run([Self.replicas, fixture.place])
        #expect(listed.status == 0 && listed.output.split(separator: "\n").count == 3)
        for (time, content) in zip(times, contents) {
            let out = fixture.folder.path("out\(time).db")
            #expect(try Self.run([Self.replicas, fixture.place, "--restore", "\(time)", out]).status == 0)
            let store = try SharedStore.open(at: out, unlockedBy: TestKeys.source("raw"))
            defer { try? store.close() }
            #expect(try RepositoryFixture.content(store) == content)
        }
        try fixture.flip(try #require(try fixture.files(.replica).last), at: 5000)
        #expect(try Self.run([Self.replicas, fixture.place]).status == 1)
        try fixture.store.close()
    }
}

@Suite("Docs/Formats/BackupRepository.md") struct RepositoryDocumentTests {
    private static let document = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        .appending(path: "Docs/Formats/BackupRepository.md")

    private static let constants: [String: Int] = [
        "PageTable.Offset.magic": PageTable.Offset.magic,
        "PageTable.Offset.version": PageTable.Offset.version,
        "PageTable.Offset.pageBytes": PageTable.Offset.pageBytes,
        "PageTable.Offset.count": PageTable.Offset.count,
        "PageTable.Offset.entries": PageTable.Offset.entries,
        "PageTable.EntryOffset.pageNumber": PageTable.EntryOffset.pageNumber,
        "PageTable.EntryOffset.tag": PageTable.EntryOffset.tag,
        "PageTable.EntryOffset.sha256": PageTable.EntryOffset.sha256,
        "PageTable.EntryOffset.end": PageTable.EntryOffset.end,
        "PageMap.Offset.magic": PageMap.Offset.magic,
        "PageMap.Offset.version": PageMap.Offset.version,
        "PageMap.Offset.count": PageMap.Offset.count,
        "PageMap.Offset.runs": PageMap.Offset.runs,
        "BackupRecord.Offset.magic": BackupRecord.Offset.magic,
        "BackupRecord.Offset.version": BackupRecord.Offset.version,
        "BackupRecord.Offset.storeID": BackupRecord.Offset.storeID,
        "BackupRecord.Offset.epoch": BackupRecord.Offset.epoch,
        "BackupRecord.Offset.generation": BackupRecord.Offset.generation,
        "BackupRecord.Offset.sequence": BackupRecord.Offset.sequence,
        "BackupRecord.Offset.created": BackupRecord.Offset.created,
        "BackupRecord.Offset.pageBytes": BackupRecord.Offset.pageBytes,
        "BackupRecord.Offset.pages": BackupRecord.Offset.pages,
        "BackupRecord.Offset.salt1": BackupRecord.Offset.salt1,
        "BackupRecord.Offset.salt2": BackupRecord.Offset.salt2,
        "BackupRecord.Offset.frame": BackupRecord.Offset.frame,
        "BackupRecord.Offset.parent": BackupRecord.Offset.parent,
        "BackupRecord.Offset.map": BackupRecord.Offset.map,
        "BackupRecord.Offset.sidecar": BackupRecord.Offset.sidecar,
        "BackupRecord.Offset.keyLog": BackupRecord.Offset.keyLog,
        "BackupRecord.Offset.library": BackupRecord.Offset.library,
        "BackupRecord.Offset.packCount": BackupRecord.Offset.packCount,
        "BackupRecord.Offset.packs": BackupRecord.Offset.packs,
    ]

    @Test("it tabulates the offsets of the code")
    func offsets() throws {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        var found: [String: Int] = [:]
        for match in text.matches(of: #/\| (\d+) \|[^|]*\| `([\w.]+)` \|/#) {
            found[String(match.2)] = Int(match.1)
        }
        #expect(found == Self.constants)
    }

    /// A part of the example, as bytes.
    private func example(_ title: String) throws -> [UInt8] {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        let start = try #require(text.range(of: "\n\(title):\n")?.upperBound)
        let digits = text[start...].prefix { "0123456789abcdef\n".contains($0) }.filter { $0 != "\n" }
        return TestKeys.bytes(String(digits))
    }

    @Test("its example has the bytes that the code writes and reads")
    func exampleBytes() throws {
        let pages = (1...2).map { number in (0..<512).map { UInt8((number * 7 + $0) % 251) } }
        var builder = PackBuilder(pageBytes: 512)
        for (index, page) in pages.enumerated() {
            try page.withUnsafeBytes { bytes in
                let tag = bytes.loadUnaligned(fromByteOffset: 448, as: PageTag.self)
                _ = builder.add(bytes, number: UInt32(index + 1), tag: tag, hash: try bytes.sha256)
            }
        }
        let pack = try builder.finish()
        let table = try example("table")
        #expect(pack.bytes == table + pages[0] + pages[1])
        #expect(try ObjectHash(of: table) == pack.hash)
        let map = PageMap(joining: [1, 2].map { PageRun(first: $0, count: 1, pack: 0, slot: $0 - 1) })
        #expect(try map.encoded == example("map"))
        let storeID = try #require(StoreID(bytes: Array(0..<16)))
        let record = BackupRecord(
            facts: BackupFacts(
                storeID: storeID, epoch: 1, generation: 2, created: 1_795_300_000, pageBytes: 512, pages: 2),
            sequence: 3, wal: .init(salt1: 0x1111_1111, salt2: 0x2222_2222, frame: 7), parent: .none,
            map: try ObjectHash(of: map.encoded), sidecar: try ObjectHash(of: Array("a sidecar".utf8)), keyLog: .none,
            library: "4.6.1 community", packs: [pack.hash])
        let key = try DataKey(SecretBytes(copying: Array(0..<32)))
        let bytes = try record.sealed(key)
        #expect(try bytes == example("record"))
        #expect(try ObjectHash(of: bytes).bytes == example("name of the record"))
        #expect(try BackupRecord.parse(bytes) == record && record.isAuthentic(bytes, key))
        #expect(try PageMap(map.encoded, of: record).runs == map.runs)
    }

    @Test("bytes that are cut off, longer or changed are refused, and end no program")
    func hostileBytes() throws {
        let (table, map, record) = (try example("table"), try example("map"), try example("record"))
        let parsed = try BackupRecord.parse(record)
        for count in record.indices {
            #expect(throws: FormatFault.self) { try BackupRecord.parse(Array(record[..<count])) }
        }
        for count in map.indices { #expect(throws: FormatFault.self) { try PageMap(Array(map[..<count]), of: parsed) } }
        for count in table.indices {
            #expect(throws: FormatFault.self) { try PageTable(beginning: Array(table[..<count])) }
        }
        #expect(throws: FormatFault.self) { try BackupRecord.parse(record + [0]) }
        #expect(throws: FormatFault.self) { try PageMap(map + [0], of: parsed) }
        for index in map.indices {
            for value in [0, 1, 0x7f, 0xff] as [UInt8] where map[index] != value {
                var changed = map
                changed[index] = value
                // It is refused, or names other slots of the pack.
                if let read = try? PageMap(changed, of: parsed) {
                    #expect(read.runs.last?.last == 2 && (20..<28).contains(index))
                }
            }
        }
    }
}
