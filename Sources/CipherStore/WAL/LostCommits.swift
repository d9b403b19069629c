import CipherDatabase
import KeyCustody
import PageFormat
import StoreSharing

/// Commits that the WAL of a store has lost, found while the store is opened: the next commit writes over what is left
/// of them.
///
/// A process that is killed leaves a commit in part, which was acknowledged to nobody; `status` and `verify` note it. An opening
/// notes what no kill leaves: a frame that SQLite does not accept, and a commit behind it. A header that SQLite does not
/// accept is what a kill leaves while the WAL begins anew, when every commit is in the database file.
enum LostCommits {
    /// Reports the loss as a notice. An unreadable part is left to `verify`.
    ///
    /// - Parameter pool: It has written nothing yet.
    static func report(_ pool: DatabasePool, _ fileKey: FileKey) {
        let position = pool.writeWithoutTransaction(\.commitPosition)
        guard let key = fileKey.pageKey, hasCommit(pool.path, behind: (position?.frame ?? 0) + 1),
            let loss = try? WALContent.loss(of: pool.path, key), case .afterFrame(let broken) = loss,
            hasCommit(pool.path, behind: broken)
        else { return }
        fileKey.opening.report(["\(loss.note): \(loss.remedy)"])
    }

    /// Whether a frame of this run of the WAL ends a transaction behind another one, itself excluded.
    ///
    /// Mostly nothing of this run follows the last commit, and then a few short reads show that.
    private static func hasCommit(_ path: String, behind first: UInt32) -> Bool {
        guard let file = try? RawFile(wal: StorePaths(path).wal),
            let header = try? file.bytes(at: 0, count: WALHeader.headerBytes).withUnsafeBytes({ WALHeader($0) })
        else { return false }
        func frame(_ number: UInt32) -> WALFrameHeader? {
            let bytes = try? file.bytes(at: header.frameOffset(number), count: WALFrameHeader.headerBytes)
            return bytes.flatMap { $0.withUnsafeBytes { WALFrameHeader($0) } }
        }
        var number = first + 1
        var foreign = 0
        // One may have lost its salts.
        while foreign < 2, let found = frame(number) {
            if found.salts != header.salts {
                foreign += 1
            } else if found.endsTransaction {
                return true
            }
            number += 1
        }
        return false
    }
}
