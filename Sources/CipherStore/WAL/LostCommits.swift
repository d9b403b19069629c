import CipherDatabase
import KeyCustody
import PageFormat
import StoreSharing

/// Commits that the WAL of a store has lost, found while the store is opened: the next commit writes over what is left
/// of them.
///
/// A process that is killed leaves a commit in part, which nobody was told of; `status` and `verify` note it. An opening
/// notes what no kill leaves: a frame that SQLite does not accept, and a commit behind it.
enum LostCommits {
    /// Reports the loss as a notice. What cannot be read is left to `verify`.
    ///
    /// - Parameter pool: It has written nothing yet.
    static func report(_ pool: DatabasePool, _ keyring: Keyring) {
        let position = pool.writeWithoutTransaction(\.commitPosition)
        guard let key = keyring.pageKey, hasCommit(pool.path, after: (position?.frame ?? 0) + 1),
            let loss = try? WALContent.loss(of: pool.path, key), loss.hasFrames
        else { return }
        keyring.opening.report(["\(loss.note): \(loss.remedy)"])
    }

    /// Whether a frame of this run of the WAL ends a transaction behind one that does not count.
    ///
    /// Mostly nothing of this run follows the last commit, and then two short reads show that.
    private static func hasCommit(_ path: String, after broken: UInt32) -> Bool {
        guard let file = try? RawFile(wal: StorePaths(path).wal),
            let header = try? file.bytes(at: 0, count: WALHeader.headerBytes).withUnsafeBytes({ WALHeader($0) })
        else { return false }
        func frame(_ number: UInt32) -> WALFrameHeader? {
            let bytes = try? file.bytes(at: header.frameOffset(number), count: WALFrameHeader.headerBytes)
            return bytes.flatMap { $0.withUnsafeBytes { WALFrameHeader($0) } }
        }
        var number = broken
        while let found = frame(number) {
            let isOwn = found.salts == header.salts
            if number > broken, isOwn, found.endsTransaction { return true }
            // The first one may be damaged there.
            if number > broken, !isOwn { return false }
            number += 1
        }
        return false
    }
}
