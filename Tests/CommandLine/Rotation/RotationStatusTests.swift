import Foundation
import TestKit
import Testing

/// `rotate --status` said of everything it could not read that both copies of the sidecar were missing or damaged.
@Suite("cipherctl rotate --status, of what is no sound store")
struct RotationStatusTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func expect(
        _ name: String, _ code: String, _ status: Int32, at location: SourceLocation = #_sourceLocation
    ) throws {
        let outcome = try place.run(["rotate", place.path(name), "--status", "--json"])
        let stores = outcome.json["stores"] as? [[String: Any]] ?? []
        let error = stores.first?["error"] as? [String: Any] ?? [:]
        #expect(
            outcome.status == status && error["code"] as? String == code, "\(outcome.errors)", sourceLocation: location)
        let message = "\(error["message"] ?? "") \(error["hint"] ?? "")"
        let claimsDamage = message.contains("missing or damaged") || message.contains("Restore it from a backup")
        #expect(!claimsDamage || code == "sidecarDamaged", "\(message)", sourceLocation: location)
    }

    @Test("the error is the one that other commands have")
    func errors() throws {
        try place.makePlain("CREATE TABLE t (a)")
        try expect("plain.db", "notEncrypted", 65)
        try FileManager.default.createDirectory(atPath: place.path("folder"), withIntermediateDirectories: false)
        try expect("folder", "noSuchStore", 66)
        try expect("none.db", "noSuchStore", 66)
        try place.copy("s.db-sidecar", to: "gone.db-sidecar")
        try expect("gone.db", "databaseMissing", 65)
        try place.copy("s.db", to: "lost.db")
        try expect("lost.db", "saltMissing", 65)
        try place.write("nonsense", to: "lost.db-sidecar")
        try place.write("nonsense", to: "lost.db-sidecar.bak")
        try expect("lost.db", "sidecarDamaged", 65)
    }

    @Test("of a store whose restoration was interrupted it says that")
    func restoration() throws {
        try #require(place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let killed = try place.run(
            ["restore", place.path("b"), place.path("s.db"), "--replace", "--yes", "--raw-key-file", place.key],
            environment: ["CIPHERSTORE_CRASH_AT": "restoreFormerRemoved"])
        try #require(killed.status == 128 + SIGKILL)
        let outcome = try place.run(["rotate", place.path("s.db"), "--status"])
        #expect(outcome.errors.contains("a restoration of it was"), "\(outcome.errors)")
    }
}
