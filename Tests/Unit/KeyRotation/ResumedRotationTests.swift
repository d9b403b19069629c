import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import KeyRotation

/// Rotations that were interrupted before the switch: reported, resumed, abandoned.
@Suite(.serialized) struct ResumedRotationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let raw = TestKeys.source("raw")
    private static let newBytes = [UInt8](repeating: 0x77, count: 32)
    private let newKey = KeySource.rawKey(newBytes)

    /// A store of some pages, with a keyslot or without.
    private func make(_ scheme: KeyScheme = .slots) throws {
        var configuration = Configuration()
        configuration.keyScheme = scheme
        let store = try SharedStore.open(at: path, unlockedBy: raw, configuration: configuration)
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a TEXT)")
            for _ in 0..<50 { try db.execute(sql: "INSERT INTO t (a) VALUES (hex(randomblob(2000)))") }
        }
        try store.close()
    }

    private func cutDirect(isSwitching: Bool = false) throws {
        try make(.direct)
        let next = Secret.rawKey(try RawKey(bytes: Self.newBytes))
        try InterruptedRotationFixture.leave(path, mode: .direct(next), isSwitching: isSwitching)
    }

    private func options(_ mode: KeyRotation.Mode = .newDataKey) -> KeyRotation.Options {
        var options = KeyRotation.Options(mode: mode)
        options.checksIntegrity = false
        return options
    }

    private func resume(
        _ options: KeyRotation.Options, by source: KeySource? = nil,
        progress: (@Sendable (RotationProgress) -> Void)? = nil
    ) throws -> RotationReport? {
        try KeyRotation.resume(path: path, unlockedBy: source ?? raw, options: options, progress: progress)
    }

    private func sidecar() throws -> Sidecar {
        let files = SidecarFiles(databasePath: path)
        return try #require(try files.choose(files.read()) { try TestKeys.material("raw").unlock($0) }).sidecar
    }

    private func rows(_ source: KeySource, of path: String? = nil) throws -> Int? {
        let store = try SharedStore.open(at: path ?? self.path, unlockedBy: source)
        defer { try? store.close() }
        return try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
    }

    /// Expects that the resumption is refused, and that the store is unchanged.
    private func expectRefusal(
        _ code: StoreError.Code, _ options: KeyRotation.Options, by source: KeySource? = nil,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        func files() throws -> [Data] {
            try ["", "-sidecar", "-sidecar.bak", "-rotating"].map {
                try Data(contentsOf: URL(fileURLWithPath: path + $0))
            }
        }
        let before = try files()
        #expect(storeError { try resume(options, by: source) } == code, sourceLocation: location)
        #expect(try files() == before, sourceLocation: location)
    }

    @Test("a rotation that was cut is told by its status, and abandoned")
    func abandons() throws {
        try make()
        try InterruptedRotationFixture.leave(path)
        let status = try KeyRotation.status(of: path)
        #expect(status.state == .copying && status.isInterrupted && status.epoch == 1)
        #expect(status.copyBytes == InterruptedRotationFixture.copyBytes)
        #expect(storeError { try KeyRotation.abandon(path: path, unlockedBy: newKey) } == .wrongKey)
        #expect(try KeyRotation.abandon(path: path, unlockedBy: raw))
        #expect(try KeyRotation.status(of: path).state == .none)
        #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
        #expect(try !KeyRotation.abandon(path: path, unlockedBy: raw))
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("a rotation that was cut is gone on with, to the key that was pending")
    func resumes() throws {
        try make()
        let salt = try InterruptedRotationFixture.leave(path).nextSalt
        #expect(try resume(options())?.toEpoch == 2)
        #expect(try sidecar().salt == salt)
        #expect(StoreProof.problems(path).isEmpty)
        #expect(try resume(options()) == nil)
    }

    // The resumption once used the pending key whatever key was given, and succeeded. A user who had only the given key
    // was locked out.
    @Test("a direct store goes on to its new key only when that is given again")
    func directStore() throws {
        try cutDirect()
        try expectRefusal(.keyMissing, options())
        try expectRefusal(.invalidKey, options(.newKey(.rawKey([UInt8](repeating: 0x78, count: 32)))))
        try expectRefusal(.invalidKey, options(.newKey(raw)))
        // The new key alone does not open the pages to copy.
        try expectRefusal(.rotationPending, options(.newKey(newKey)), by: newKey)
        #expect(try resume(options(.newKey(newKey)))?.toEpoch == 2)
        #expect(try rows(newKey) == 50)
        #expect(storeError { try rows(raw) } == .wrongKey)
    }

    @Test("a direct store that was being switched is not finished for somebody who thinks of another new key")
    func switchingStore() throws {
        try cutDirect(isSwitching: true)
        try expectRefusal(.invalidKey, options(.newKey(raw)))
        // The switch was once completed without the new key, and a user who had lost that key was locked out.
        try expectRefusal(.keyMissing, options())
    }

    @Test("a store with slots is gone on with only when that does what is asked for")
    func slots() throws {
        try make()
        try InterruptedRotationFixture.leave(path)
        try expectRefusal(.modeConflict, options(.newKey(newKey)))
        // The master key would have stayed, and the person because of whom it was to be renewed could still open the
        // store.
        try expectRefusal(.modeConflict, options(.compromised(dropsOtherSlots: true, alsoKeeping: [])))
        #expect(try KeyRotation.abandon(path: path, unlockedBy: raw))
        let own = try TestKeys.material("raw")
        try InterruptedRotationFixture.leave(path, mode: .compromised(kept: [own]))
        #expect(try resume(options(.compromised(dropsOtherSlots: false, alsoKeeping: [])))?.toEpoch == 2)
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("a backup comes first, and opens with the former key", arguments: [KeyScheme.slots, .direct])
    func backup(scheme: KeyScheme) throws {
        if scheme == .direct {
            try cutDirect()
        } else {
            try make()
            try InterruptedRotationFixture.leave(path)
        }
        var options = options(scheme == .direct ? .newKey(newKey) : .newDataKey)
        options.backupFolder = folder.path("backup")
        let report = try resume(options)
        #expect(report?.toEpoch == 2 && report?.backupPath == folder.path("backup"))
        #expect(try SharedStore.verifyBackup(at: folder.path("backup"), unlockedBy: raw).epoch == 1)
        try SharedStore.restore(from: folder.path("backup"), to: folder.path("restored.db"), unlockedBy: raw)
        #expect(try rows(raw, of: folder.path("restored.db")) == 50)
        #expect(try KeyRotation.status(of: folder.path("restored.db")).state == .none)
    }

    @Test("the copy that was begun is gone before room for another one is asked for")
    func leftover() throws {
        try make()
        try InterruptedRotationFixture.leave(path)
        let copy = path + "-rotating"
        let isThere = Mutex<Bool?>(nil)
        _ = try resume(options()) { progress in
            guard progress.phase == .preflight else { return }
            isThere.withLock { $0 = FileManager.default.fileExists(atPath: copy) }
        }
        #expect(isThere.withLock { $0 } == false)
    }

    // Each record of the switch once derived the keys again: a second for each, with all processes paused.
    @Test("no key is derived while everybody waits")
    func derivations() async throws {
        // In a process of its own, so that derivations of other tests are not counted.
        await #expect(processExitsWith: .success) {
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
            _ = try store.keys.add(TestKeys.source("words"), derivation: TestKeys.cheap)
            try store.close()
            try InterruptedRotationFixture.leave(path)
            let atPause = Mutex<Int?>(nil)
            let report = try KeyRotation.resume(
                path: path, unlockedBy: TestKeys.source("words"),
                progress: { progress in
                    guard progress.phase == .switching else { return }
                    atPause.withLock { $0 = $0 ?? KeyWork.derivations }
                })
            #expect(report?.toEpoch == 2)
            #expect(atPause.withLock { $0 } == KeyWork.derivations)
            #expect(KeyWork.derivations > 0)
        }
    }
}
