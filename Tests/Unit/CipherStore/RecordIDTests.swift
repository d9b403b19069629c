import CipherStore
import Foundation
import TestHarness
import TestKit
import Testing

/// Identifiers of records, to a URL and back.
@Suite struct RecordIDTests {
    private let folder = TemporaryFolder()

    private func storeID(_ byte: UInt8 = 7) throws -> StoreID {
        try #require(StoreID(bytes: [UInt8](repeating: byte, count: StoreID.byteCount)))
    }

    private func id(_ key: [String: any DatabaseValueConvertible], table: String = "player") throws -> RecordID {
        try #require(try RecordID(storeID: storeID(), tableName: table, key: key.mapValues(\.databaseValue)))
    }

    @Test("a URL names store, table and key, and is the same for the same record")
    func urls() throws {
        let url = try id(["id": 42]).url.absoluteString
        #expect(url == "cipherstore://07070707070707070707070707070707/player?id=i42")
        let compound = try id(["b": "x y", "a": 2]).url.absoluteString
        #expect(compound.hasSuffix("/player?a=i2&b=tx%20y"))
    }

    @Test("every name and value comes back from a URL and from JSON")
    func roundTrips() throws {
        let hostile = "a/b?c=d&e#f%20+\u{0}\n\"'ü\u{1F600} .."
        let keys: [[String: any DatabaseValueConvertible]] = [
            ["id": Int64.min], ["id": Int64.max], ["x": 0.1, "y": -Double.infinity], ["t": ""], ["t": "\u{301}a"],
            ["t": hostile],
            ["b": Data()], ["b": Data([0, 255, 37])], [hostile: hostile],
            ["i": 1, "r": 1.5, "t": "1", "b": Data([49])],
        ]
        for key in keys {
            for table in ["player", hostile, "Größe"] {
                let original = try id(key, table: table)
                let read = try #require(RecordID(url: original.url))
                #expect(read == original && read.hashValue == original.hashValue && read.url == original.url)
                #expect(read.key.mapValues(\.storage) == original.key.mapValues(\.storage))
                let data = try JSONEncoder().encode([original])
                #expect(try JSONDecoder().decode([RecordID].self, from: data) == [original])
            }
        }
    }

    @Test("random bytes come back, and random changes of a URL never give another identifier of the same text")
    func random() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 1...500 {
            let bytes = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let original = try id(["k": Data(bytes), "t": String(decoding: bytes, as: UTF8.self)])
            #expect(RecordID(url: original.url) == original)
            var text = Array(original.url.absoluteString.utf8)
            text[Int.random(in: 0..<text.count, using: &random)] = UInt8.random(in: 32...126, using: &random)
            guard let url = URL(string: String(decoding: text, as: UTF8.self)), let read = RecordID(url: url) else {
                continue
            }
            #expect(RecordID(url: read.url) == read)
        }
    }

    @Test(
        "other URLs are none",
        arguments: [
            "https://07070707070707070707070707070707/player?id=i42", "cipherstore://07/player?id=i42",
            "cipherstore:player?id=i42", "cipherstore://07070707070707070707070707070707/player",
            "cipherstore://07070707070707070707070707070707/?id=i42",
            "cipherstore://07070707070707070707070707070707/player?id=42",
            "cipherstore://07070707070707070707070707070707/player?id=n",
            "cipherstore://07070707070707070707070707070707/player?id=i4x",
            "cipherstore://07070707070707070707070707070707/player?id=b0",
            "cipherstore://07070707070707070707070707070707/player?id=i1&id=i2",
            "cipherstore://07070707070707070707070707070707/player?id=i1&ID=i2",
            "cipherstore://07070707070707070707070707070707/player?id=i1&",
            "cipherstore://u:p@07070707070707070707070707070707:1/player?id=i1#f", "",
        ])
    func otherURLs(text: String) throws {
        #expect(URL(string: text).flatMap { RecordID(url: $0) } == nil)
        let json = try JSONEncoder().encode([text])
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([RecordID].self, from: json) }
    }

    @Test("names are compared as SQLite does, values by their numbers")
    func equality() throws {
        #expect(try id(["ID": 1], table: "Player") == id(["id": 1.0], table: "player"))
        #expect(try id(["ID": 1], table: "Player").hashValue == id(["id": 1.0], table: "player").hashValue)
        #expect(try id(["id": 1]) != id(["id": "1"]))
        #expect(try id(["id": 1]) != id(["id": 1], table: "team"))
        let other = try RecordID(storeID: storeID(8), tableName: "player", key: ["id": 1.databaseValue])
        #expect(try id(["id": 1]) != other)
    }

    @Test("a key needs columns and values; a description has no value")
    func keys() throws {
        #expect(try RecordID(storeID: storeID(), tableName: "t", key: [:]) == nil)
        #expect(try RecordID(storeID: storeID(), tableName: "t", key: ["a": .null]) == nil)
        #expect(try !"\(id(["id": "secret"]))".contains("secret"))
    }

    private struct Seat: Codable, Equatable, FetchableRecord, PersistableRecord {
        var row: Int?
        var letter: String
    }

    private struct Other: Codable, FetchableRecord, TableRecord {}

    @Test("a record has an identifier in its store, by which it is fetched")
    func records() throws {
        let store = try SharedStore.open(at: folder.path("a.db"), unlockedBy: TestKeys.source("raw"))
        let seat = Seat(row: 3, letter: "C")
        let id = try store.write { db in
            try db.execute(sql: #"CREATE TABLE seat ("row", letter, PRIMARY KEY ("row", letter))"#)
            try seat.insert(db)
            return try store.recordID(of: seat, db)
        }
        #expect(id.storeID == store.storeID)
        #expect(try store.read { try Seat.fetchOne($0, recordID: id) } == seat)
        #expect(try store.read { try Other.fetchOne($0, recordID: id) } == nil)
        try store.write { _ = try seat.delete($0) }
        #expect(try store.read { try Seat.fetchOne($0, recordID: id) } == nil)
        #expect(throws: RecordError.self) {
            try store.read { try store.recordID(of: Seat(row: nil, letter: "C"), $0) }
        }
        try store.close()
    }
}
