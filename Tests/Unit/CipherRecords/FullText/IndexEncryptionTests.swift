import CipherDatabase
import Foundation
import Testing

@testable import CipherRecords

@Suite("The words of a full-text index of an encrypted database")
struct IndexEncryptionTests {
    /// Words that begin differently, since an index stores of each word only what differs from the one before it.
    private static let secrets = ["Apricotsecretly", "Krakowsecretive", "Xylophonesecrets"]

    /// The part of them that an index may hold.
    private static var needles: [String] {
        secrets.flatMap { [$0, $0.lowercased(), String($0.lowercased().prefix(9))] }
    }

    /// Full-text tables of which only the index holds the words.
    private static func fill(_ db: Database) throws {
        try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, number INTEGER)")
        try db.create(virtualTable: "five", using: FTS5()) { t in
            t.tokenizer = .porter()
            t.content = ""
            t.prefixes = [2, 9]
            t.column("text")
        }
        try db.create(virtualTable: "four", using: FTS4()) { t in
            t.tokenizer = .porter
            t.content = ""
            t.column("text")
        }
        for number in 0..<400 {
            let text = Self.secrets.joined(separator: " ") + " filler\(number)"
            try db.execute(sql: "INSERT INTO five(rowid, text) VALUES (?, ?)", arguments: [number, text])
            try db.execute(sql: "INSERT INTO four(docid, text) VALUES (?, ?)", arguments: [number, text])
        }
    }

    /// Writes the words into full-text tables, and looks for them in each file, while the store is open and after.
    private func leaks(_ configuration: Configuration) throws -> [String] {
        let folder = try Scratch()
        let pool = try DatabasePool(path: folder.path("notes.db"), configuration: configuration)
        try pool.write { db in try Self.fill(db) }
        try pool.write { db in
            try db.execute(sql: "INSERT INTO five(five) VALUES('optimize'); INSERT INTO four(four) VALUES('optimize')")
        }
        let found = try pool.read { db in
            try Table("five").matching(FTS5Pattern(matchingAllTokensIn: Self.secrets[1])).fetchCount(db)
        }
        #expect(found == 400)
        var holders: Set<String> = []
        func scan() throws {
            let contents = try folder.contents()
            #expect(contents.keys.contains("notes.db"))
            for (name, bytes) in contents {
                for needle in Self.needles where bytes.range(of: Data(needle.utf8)) != nil { holders.insert(name) }
            }
            // Temporary files too, deleted ones among them: by the descriptors of this process.
            #if os(Linux)
                for number in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
                    let link = "/proc/self/fd/\(number)"
                    guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: link),
                        target.contains("etilqs"), let bytes = FileManager.default.contents(atPath: link)
                    else { continue }
                    for needle in Self.needles where bytes.range(of: Data(needle.utf8)) != nil {
                        holders.insert("temporary")
                    }
                }
            #endif
        }
        try scan()
        try pool.barrierWriteWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        try scan()
        try pool.close()
        try scan()
        return holders.sorted()
    }

    @Test("an encrypted database has no word of its full-text indexes in any file")
    func encryptedIndex() throws {
        var configuration = Configuration()
        configuration.prepareDatabase { db in try db.useRawKey(Data((0..<32).map { UInt8($0 &* 7 &+ 1) })) }
        try #expect(leaks(configuration) == [])
    }

    @Test("the same search finds the words of a plain database's indexes")
    func plainIndex() throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let holders = try leaks(configuration)
        #expect(holders.contains("notes.db") && holders.contains("notes.db-wal"))
    }
}
