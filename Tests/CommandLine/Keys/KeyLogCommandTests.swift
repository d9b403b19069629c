import CipherStore
import Foundation
import KeyCustody
import TestKit
import Testing

/// The fact that the chain of a key log cannot show, and the sidecar can.
@Suite("A key log that is behind its store")
struct KeyLogCommandTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }
    private static let behind = "the key log records epoch 1 at most, but the sidecar is at epoch 2"

    init() throws {
        place = try Workplace()
        try place.makeStore()
        #expect(try place.ctl("rotate", store, "--no-backup").status == 0)
    }

    private func notes(_ status: Int32 = 0) throws -> [String] {
        let log = try place.run(["key", "log", store, "--json"])
        #expect(log.status == status, "\(log.output)")
        return log.json["notes"] as? [String] ?? []
    }

    private func doctor() throws -> CommandRun.Outcome {
        try place.run(["doctor", store, "--no-key", "--json"])
    }

    @Test("one that tells of the last rotation needs no word")
    func sound() throws {
        #expect(try notes().isEmpty)
        #expect(try !doctor().output.contains("keyLogBehind"))
    }

    @Test("one that is gone, empty, or lost its end is told, as what the chain alone cannot show")
    func behind() throws {
        let lines = try String(decoding: place.bytes("s.db-keylog"), as: UTF8.self).split(separator: "\n")
        for content in ["", lines[0] + "\n"] {
            try place.write(String(content), to: "s.db-keylog")
            #expect(try notes(content.isEmpty ? 2 : 0).contains { $0.contains(Self.behind) })
            let doctor = try doctor()
            #expect(doctor.output.contains("\"keyLogBehind\""), "\(doctor.output)")
            #expect(doctor.output.contains("\"keyLogMissing\"") == content.isEmpty)
            #expect(doctor.status == (content.isEmpty ? 2 : 0))
        }
        try place.remove("s.db-keylog")
        #expect(try notes(2).contains { $0.contains(Self.behind) })
        #expect(try place.run(["key", "log", store]).errors.contains(Self.behind))
    }

    private func status() throws -> CommandRun.Outcome { try place.run(["status", store, "--no-key", "--json"]) }

    // `status` had no word for it: who removed the log removed its traces with it.
    @Test("status and doctor report a log that was removed, until that is acknowledged")
    func removed() throws {
        #expect(try status().status == 0)
        try place.remove("s.db-keylog")
        let found = try status()
        #expect(found.status == 2 && found.json["key_log_missing"] as? Bool == true)
        let attention = found.json["attention"] as? [String] ?? []
        #expect(attention.contains { $0.contains("the key log \"s.db-keylog\" does not exist") })
        #expect(try place.run(["status", store, "--no-key"]).output.contains("key log      none"))
        let acknowledged = try place.run(["key", "log", store, "--acknowledge"])
        #expect(acknowledged.status == 0 && acknowledged.output.contains("log-acknowledged"), "\(acknowledged.errors)")
        #expect(try status().status == 0)
        #expect(try doctor().status == 0)
        #expect(try notes().isEmpty)
    }

    @Test("a log that was changed needs attention until that is acknowledged, and again when it is changed again")
    func changed() throws {
        let lines = try String(decoding: place.bytes("s.db-keylog"), as: UTF8.self).split(separator: "\n")
        try place.write(([lines[0]] + lines.dropFirst(2)).map { $0 + "\n" }.joined(), to: "s.db-keylog")
        #expect(try status().status == 2)
        #expect(try place.run(["key", "log", store]).status == 65)
        let acknowledged = try place.run(["key", "log", store, "--acknowledge", "--json"])
        #expect(acknowledged.status == 0, "\(acknowledged.errors)")
        #expect((acknowledged.json["acknowledged"] as? [Any])?.count == 1)
        #expect(acknowledged.errors.contains("acknowledged: 1 problem"))
        #expect(try status().status == 0)
        let again = try place.run(["key", "log", store, "--acknowledge"])
        #expect(again.errors.contains("nothing to acknowledge"))
        let text = try String(decoding: place.bytes("s.db-keylog"), as: UTF8.self)
        try place.write(text.replacing("rotation-completed", with: "rotation-abandoned"), to: "s.db-keylog")
        #expect(try status().status == 2)
    }

    @Test("a store that was made by hand has no log, and needs none")
    func byHand() throws {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 0x2a, count: 32))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        try DatabasePool(path: place.path("hand.db"), configuration: configuration).close()
        let status = try place.run(["status", place.path("hand.db"), "--no-key"])
        #expect(status.status == 0 && status.output.contains("key log      none"), "\(status.output)")
    }

    @Test("a store that was restored begins its log at whatever epoch")
    func restored() throws {
        try #require(place.ctl("backup", store, place.path("b")).status == 0)
        let copy = place.path("r.db")
        try #require(place.ctl("restore", place.path("b"), copy).status == 0)
        let log = try place.run(["key", "log", copy, "--json"])
        #expect(log.status == 0 && (log.json["notes"] as? [String])?.isEmpty == true, "\(log.output)")
    }
}
