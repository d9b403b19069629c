import CipherDatabase
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// Commits that the WAL of a store has lost, found while the store is opened for writing: the next commit, and the
/// checkpoint of the last close, destroy what is left of them.
///
/// The opening that notices them first keeps a copy of the whole WAL (``DamagedWAL``). A process that is killed leaves a
/// commit in part, which was acknowledged to nobody; `status` and `verify` note it, and no copy of it is made. The page
/// of the last frame tells such a commit from a damaged one: see ``WALTail/hasChangedEnd()``.
enum LostCommits {
    /// Keeps a copy of a WAL with frames that can be read and that SQLite does not accept, and reports it as a notice.
    ///
    /// - Parameter pool: It has written nothing yet, and is closed without a checkpoint where this throws.
    /// - Throws: ``StoreError`` `walDamaged` when no copy can be made; `SystemError`.
    static func keep(_ pool: DatabasePool, _ fileKey: FileKey) throws {
        guard let key = fileKey.pageKey, let paths = fileKey.paths else { return }
        let committed = pool.writeWithoutTransaction(\.commitPosition)?.frame ?? 0
        guard mayHaveLost(paths.wal, after: committed), let loss = try WALContent.loss(of: pool.path, key),
            isLost(loss, behind: committed)
        else { return }
        let note = loss.note
        // A kill in the last commit leaves a damaged frame too, and no commit behind it.
        if loss.damagedFrame != nil, !hasCommit(paths.wal, behind: loss),
            try !Polling.holds({ try WALContent(of: pool.path).hasChangedEnd(key) })
        {
            return
        }
        guard let start = try WALContent(of: pool.path).readableLoss(of: pool.path, key) else {
            if loss.damagedFrame != nil { fileKey.opening.report(["\(note): compare with the last backup"]) }
            return
        }
        let copy: String
        do {
            copy = try DamagedWAL(paths).keep(from: start).path
        } catch let error as SystemError {
            throw refusal(note, error, paths)
        }
        let place = ShellWord.path(pool.path)
        fileKey.opening.report([
            "\(note). The whole WAL is kept as \"\(copy)\". Copy what can be read of it into another store before the "
                + "key is rotated: `cipherctl salvage \(place) NEW --wal \(ShellWord.path(copy))`; and compare with the "
                + "last backup"
        ])
    }

    /// Whether connections do not see what is lost. If one has the WAL open since before the damage, its wal-index counts.
    private static func isLost(_ loss: WALContent.Loss, behind committed: UInt32) -> Bool {
        switch loss {
        case .allContent: committed == 0
        case .afterFrame(let broken), .lastCommit(let broken): committed < broken
        case .fromFrame, .unknownVersion, .otherKey, .otherState, .changedHeader: false
        }
    }

    /// Whether a WAL has bytes that may be lost: a header that is none, or a frame of this run behind the last commit.
    ///
    /// Mostly nothing of this run follows the last commit, and then two short reads show that.
    private static func mayHaveLost(_ wal: String, after committed: UInt32) -> Bool {
        guard let file = try? RawFile(wal: wal), let bytes = try? file.byteCount, bytes > WALHeader.headerBytes else {
            return false
        }
        guard let header = header(of: file) else { return committed == 0 }
        guard let frames = try? WALFrames(header, file, bytes: bytes, nil) else { return true }
        // One may have lost its salts.
        return [committed + 1, committed + 2].contains { frame in
            ((try? frames.frameHeader(frame)) ?? nil).map(frames.isOfRun) ?? false
        }
    }

    private static func header(of file: RawFile) -> WALHeader? {
        (try? file.bytes(at: 0, count: WALHeader.headerBytes))?.withUnsafeBytes { WALHeader($0) }
    }

    /// Whether a frame of this run of the WAL ends a transaction behind the damaged one.
    private static func hasCommit(_ wal: String, behind loss: WALContent.Loss) -> Bool {
        guard let broken = loss.damagedFrame, let file = try? RawFile(wal: wal), let header = header(of: file),
            let bytes = try? file.byteCount, let frames = try? WALFrames(header, file, bytes: bytes, nil)
        else { return false }
        var frame = broken + 1
        while let found = (try? frames.frameHeader(frame)) ?? nil {
            if frames.isOfRun(found), found.endsTransaction { return true }
            guard let next = try? frames.next(after: frame) else { return false }
            frame = next
        }
        return false
    }

    private static func refusal(_ note: String, _ error: SystemError, _ paths: StorePaths) -> StoreError {
        StoreError(
            .walDamaged, what: "\"\(paths.database)\" was not opened for writing.",
            why: note.prefix(1).uppercased() + note.dropFirst()
                + ". The first write would destroy them, and no copy of "
                + "the WAL could be made (\(error)).",
            remedy:
                "Make it possible to write \"\(paths.damagedWAL)\", for example free space on the disk, and open the "
                + "store again. Or copy what can be read into a store elsewhere: `cipherctl salvage "
                + "\(ShellWord.path(paths.database)) NEW`. Nothing was changed.")
    }
}
