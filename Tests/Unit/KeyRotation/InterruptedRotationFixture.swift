import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreSharing
import TestKit

/// Leaves a closed store in the state in which a killed rotation leaves it.
enum InterruptedRotationFixture {
    /// Bytes of the copy that was begun.
    static let copyBytes = 5000

    /// The state after a kill in the middle of the copy.
    ///
    /// - Parameter isSwitching: Whether the sidecar says that the switch has begun. The copy is not complete, so it
    ///   cannot replace the database.
    /// - Returns: The keys of both epochs.
    @discardableResult
    static func leave(
        _ path: String, by key: String = "raw", mode: RotationMode = .newDataKey, isSwitching: Bool = false
    ) throws -> RotationKeys {
        let file = try LockFile(path: path + "-lock", likeFile: path)
        let locks = try [LockByte.admin, .opening].map {
            try file.lock($0, .exclusive, deadline: .now + .seconds(20))
        }
        defer { for lock in locks { lock.release() } }
        let secret = try TestKeys.material(key)
        let journal = RotationJournal(databasePath: path) { try secret.unlock($0) }
        let keys = try journal.begin(mode)
        try Data(count: copyBytes).write(to: URL(fileURLWithPath: path + "-rotating"))
        if isSwitching { try journal.announceSwitch(pages: 10) }
        return keys
    }
}
