import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import KeyRotation

/// Rotations that were cut before the switch: told of, gone on with, abandoned.
@Suite(.serialized) struct ResumedRotationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let raw = TestKeys.source("raw")
    private static let newBytes = [UInt8](repeating: 0x77, count: 32)
    private let newKey = KeySource.rawKey(newBytes)

    /// A store of some pages, with a key slot or none.
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

    private func options(_ aim: KeyRotation.Aim = .newDataKey) -> KeyRotation.Options {
        var options = KeyRotation.Options(aim: aim)
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

    @Test("a rotation that was cut is told by its status, and abandoned")
    func abandons() throws {
        try make()
        try CutRotation.leave(path)
        let status = try KeyRotation.status(of: path)
        #expect(status.state == .copying && status.wasCut && status.epoch == 1)
        #expect(status.copyBytes == CutRotation.copyBytes)
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
        let salt = try CutRotation.leave(path).nextSalt
        #expect(try resume(options())?.toEpoch == 2)
        #expect(try sidecar().salt == salt)
        #expect(StoreProof.problems(path).isEmpty)
        #expect(try resume(options()) == nil)
    }

    @Test("the copy that was begun is gone before room for another one is asked for")
    func leftover() throws {
        try make()
        try CutRotation.leave(path)
        let copy = path + "-rotating"
        let isThere = Mutex<Bool?>(nil)
        _ = try resume(options()) { progress in
            guard progress.phase == .preflight else { return }
            isThere.withLock { $0 = FileManager.default.fileExists(atPath: copy) }
        }
        #expect(isThere.withLock { $0 } == false)
    }

    // Each record of the switch derived the keys anew: a second for each with everybody waiting.
    @Test("no key is derived while everybody waits")
    func derivations() async throws {
        // In a process of its own: derivations of other tests would be counted too.
        await #expect(processExitsWith: .success) {
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
            _ = try store.keys.add(TestKeys.source("words"), derivation: TestKeys.cheap)
            try store.close()
            try CutRotation.leave(path)
            let atPause = Mutex<Int?>(nil)
            let report = try KeyRotation.resume(
                path: path, unlockedBy: TestKeys.source("words"),
                progress: { progress in
                    guard progress.phase == .switching else { return }
                    atPause.withLock { $0 = $0 ?? Derivations.count }
                })
            #expect(report?.toEpoch == 2)
            #expect(atPause.withLock { $0 } == Derivations.count)
            #expect(Derivations.count > 0)
        }
    }
}
