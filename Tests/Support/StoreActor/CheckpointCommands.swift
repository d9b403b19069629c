import CSQLCipher
import CipherStore
import Foundation
import Synchronization

extension Actor {
    /// Checkpoints: `checkpoint` is the library's own and answers the frames in the log and in the file.
    ///
    /// `open-stoppable PATH KEY` opens a store whose next checkpoint after `stop-in-checkpoint` stops the process between
    /// its look at the log's header and its look at what was copied already, where a commit may restart the log.
    /// `checkpoint-unguarded` checkpoints as stock SQLite does, without the write lock.
    static let checkpointCommands: [String: Command] = [
        "checkpoint": { actor, _ in
            let result = try actor.writer().checkpoint()
            return "\(result.walFrameCount) \(result.checkpointedFrameCount)"
        },
        "open-stoppable": { actor, words in
            var config = Configuration()
            config.prepareDatabase { db in CheckpointStop.install(on: db.sqliteConnection) }
            return try actor.open(words[0], words[1], config)
        },
        "stop-in-checkpoint": { _, _ in
            CheckpointStop.isDue.store(true, ordering: .sequentiallyConsistent)
            return ""
        },
        "checkpoint-unguarded": { actor, _ in
            try actor.writer().writeWithoutTransaction { db in
                var frames: Int32 = 0
                var copied: Int32 = 0
                let code = sqlite3_wal_checkpoint_v2(
                    db.sqliteConnection, nil, SQLITE_CHECKPOINT_PASSIVE, &frames, &copied)
                guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
                return "\(frames) \(copied)"
            }
        },
    ]
}

/// Stops the process in the middle of a checkpoint, at the one call to the file that lies between the two looks.
///
/// After it has read the log's header, and found it changed, a checkpoint tells the file to give up its mapped pages.
/// - SeeAlso: `sqlite3WalCheckpoint` in <https://www.sqlite.org/src/file/src/wal.c>
enum CheckpointStop {
    static let isDue = Atomic<Bool>(false)

    /// The methods of SQLite's files, with the one call exchanged. They are the same for all files, so one copy serves.
    // Safe because: it is written once, before the first connection is opened, by the thread that opens it.
    nonisolated(unsafe) private static var methods: UnsafeMutablePointer<sqlite3_io_methods>?
    // Safe because: as above.
    nonisolated(unsafe) private static var unfetch:
        (@convention(c) (UnsafeMutablePointer<sqlite3_file>?, sqlite3_int64, UnsafeMutableRawPointer?) -> Int32)?

    static func install(on connection: OpaquePointer?) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK, let file,
            let original = file.pointee.pMethods
        else { return }
        if methods == nil {
            let copy = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
            copy.initialize(to: original.pointee)
            unfetch = original.pointee.xUnfetch
            copy.pointee.xUnfetch = { file, offset, page in
                if CheckpointStop.isDue.exchange(false, ordering: .sequentiallyConsistent) { kill(getpid(), SIGSTOP) }
                return CheckpointStop.unfetch?(file, offset, page) ?? SQLITE_OK
            }
            methods = copy
        }
        file.pointee.pMethods = UnsafePointer(methods)
    }
}
