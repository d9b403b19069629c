import Foundation
import StoreCrypto
import StorePlatform
import StoreSharing
import Testing

@testable import KeyCustody

/// The rotations of the tests, one of each mode. Everything opens with raw keys, so that nothing is derived.
enum RotationCase: String, CaseIterable, Sendable, Codable {
    /// Slots 1, 2 and 3 have the raw keys 0, 1 and 2.
    case newDataKey
    /// The same slots; those of the raw keys 0 and 2 are kept.
    case compromised
    /// The raw key 0 becomes the raw key 7.
    case direct

    /// Raw keys that open the store before, and those that open it afterwards.
    var before: Set<UInt8> { self == .direct ? [0] : [0, 1, 2] }
    var after: Set<UInt8> {
        switch self {
        case .newDataKey: [0, 1, 2]
        case .compromised: [0, 2]
        case .direct: [7]
        }
    }
    /// One that opens the store before and sees the whole rotation.
    static let keeper: UInt8 = 0

    func mode() throws -> RotationMode {
        switch self {
        case .newDataKey: .newDataKey
        case .compromised: .compromised(kept: try [0, 2].map { try SlotFixture.rawKey($0) })
        case .direct: .direct(try SlotFixture.rawKey(7))
        }
    }

    func store() throws -> (sidecar: Sidecar, keys: SidecarKeys) {
        if self == .direct { return (try Fixture.sidecar(), .direct(try Fixture.dataKey())) }
        return try SlotFixture.store([0, 1, 2].map { try SlotFixture.keyFile($0) })
    }
}

/// A store's sidecar in a folder of its own, with the locks of a rotation.
final class RotationFixture {
    let folder: TemporaryFolder
    let files: SidecarFiles
    let kind: RotationCase
    let journal: RotationJournal
    let keys: SidecarKeys
    private var locks: [HeldLock] = []

    init(_ kind: RotationCase) throws {
        self.kind = kind
        folder = try TemporaryFolder()
        files = SidecarFiles(databasePath: folder.file("app.db"))
        let made = try kind.store()
        keys = made.keys
        try files.write(made.sidecar, keys: made.keys)
        journal = RotationJournal(databasePath: files.databasePath, keys: made.keys)
        let file = try LockFile(path: files.databasePath + "-lock", likeFile: nil)
        for byte in [LockByte.opening, .admin] { locks.append(try #require(try file.tryLock(byte, .exclusive))) }
    }

    func content(_ copy: SidecarCopy) throws -> [UInt8] {
        try Files.contents(of: files.path(of: copy), limitBytes: 1 << 20)
    }

    func put(main: [UInt8]?, backup: [UInt8]?) throws {
        for (copy, content) in [(SidecarCopy.main, main), (.backup, backup)] {
            if let content {
                try files.write(content, to: copy)
            } else {
                try Files.remove(files.path(of: copy))
            }
        }
    }

    /// A journal of somebody who comes with a raw key.
    func journal(_ key: UInt8) throws -> RotationJournal {
        let secret = try SlotFixture.rawKey(key)
        return RotationJournal(databasePath: files.databasePath) { try secret.unlock($0) }
    }

    /// The epoch that a raw key opens; nil when it opens nothing.
    func epoch(openedBy key: UInt8) throws -> UInt64? {
        let material = try SlotFixture.rawKey(key)
        do {
            return try files.choose(files.read(), allowsSwitching: true) { try material.unlock($0) }?.sidecar.epoch
        } catch let error as StoreError where error == .wrongKey || error == .rotationPending {
            return nil
        }
    }

    func state() throws -> Sidecar.State? { files.read().main.parsed?.claimed.state }

    /// Does what the recovery of a store does, as far as the sidecar goes.
    func recover(with key: UInt8) throws {
        let journal = try journal(key)
        guard let rotation = try journal.rotation() else { return }
        try journal.settle(rotation)
        if rotation.sidecar.state == .rotating { try journal.abandon() } else { try journal.complete() }
    }
}

/// The code of the `StoreError` that is thrown.
func storeErrorCode(_ body: () throws -> Void) -> StoreError.Code? {
    do {
        try body()
        return nil
    } catch let error as StoreError {
        return error.code
    } catch {
        Issue.record("\(error)")
        return nil
    }
}
