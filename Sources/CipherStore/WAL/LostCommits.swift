import CipherDatabase
import KeyCustody
import PageFormat
import StoreSharing

/// Commits that the WAL of a store has lost, found while the store is opened: the next commit writes over what is left
/// of them.
enum LostCommits {
    /// Reports the loss as a notice. What cannot be read is left to `verify`.
    ///
    /// - Parameter pool: It has written nothing yet.
    static func report(_ pool: DatabasePool, _ keyring: Keyring) {
        let position = pool.writeWithoutTransaction(\.commitPosition)
        guard let key = keyring.pageKey, mayHaveLost(pool.path, after: position?.frame ?? 0),
            let loss = try? WALContent.loss(of: pool.path, key)
        else { return }
        keyring.opening.report(["\(loss.note): \(loss.remedy)"])
    }

    /// Whether something of this run of the WAL follows its last commit, or the WAL has no header: mostly not, and then
    /// two short reads show that.
    private static func mayHaveLost(_ path: String, after frame: UInt32) -> Bool {
        guard let file = try? RawFile(wal: StorePaths(path).wal), let bytes = try? file.byteCount, bytes > 0,
            let start = try? file.bytes(at: 0, count: WALHeader.headerBytes)
        else { return false }
        guard let header = start.withUnsafeBytes({ WALHeader($0) }) else { return true }
        let next = try? file.bytes(at: header.frameOffset(frame + 1), count: WALFrameHeader.headerBytes)
        guard let next, let found = next.withUnsafeBytes({ WALFrameHeader($0) })
        else { return false }
        // A former run has another second salt, and a first one that is a little smaller.
        let resets = header.salts.first &- found.salts.first
        return resets == 0 || resets > formerRuns || found.salts.second == header.salts.second || found.pageNumber == 0
    }

    private static let formerRuns: UInt32 = 1 << 20
}
