import CipherStore
import Foundation
import KeyCustody
import TestKit
import Testing

/// What the chain of a key log cannot show, and the sidecar can.
@Suite("A key log that is behind its store")
struct KeyLogTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }
    private static let behind = "the log tells of epoch 1 at most, the sidecar is at epoch 2"

    init() throws {
        place = try Workplace()
        try place.makeStore()
        #expect(try place.ctl("rotate", store, "--no-backup").status == 0)
    }

    private func notes() throws -> [String] {
        let log = try place.run(["key", "log", store, "--json"])
        #expect(log.status == 0, "\(log.output)")
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
            #expect(try notes().contains { $0.contains(Self.behind) })
            let doctor = try doctor()
            #expect(doctor.status == 0 && doctor.output.contains("\"keyLogBehind\""), "\(doctor.output)")
        }
        try place.remove("s.db-keylog")
        #expect(try notes().contains { $0.contains(Self.behind) })
        #expect(try place.run(["key", "log", store]).errors.contains(Self.behind))
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
