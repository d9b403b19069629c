import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

// The findings of a diagnosis as errors: what, why, remedy.

extension FileDiagnosis {
    /// The kind of the file, if it is no encrypted database.
    enum Stranger {
        case plainSQLite
        case noDatabase
    }

    func notEncrypted(_ stranger: Stranger) -> StoreError {
        switch stranger {
        case .plainSQLite:
            StoreError(
                .notEncrypted,
                what: "\"\(path)\" is a plain SQLite database.",
                why: "Its pages are readable without any key.",
                remedy: "Encrypt it into a new store with `cipherctl import`, or read it as it is with `sqlite3` "
                    + "(allowsUnencrypted = true in a program).")
        case .noDatabase:
            StoreError(
                .notEncrypted,
                what: "\"\(path)\" is not a database.",
                why: "It has neither the header of SQLite nor the look of an encrypted file.",
                remedy: "Check the path. The file was left as it is.")
        }
    }

    func hardLinked(names: UInt64) -> StoreError {
        if let interrupted = InterruptedRestoration.error(.hardLinked, StorePaths(path)) { return interrupted }
        return StoreError(
            .hardLinked,
            what: "\"\(path)\" has \(names) names.",
            why: "Another hard link names the same file, and a process that opens it there writes a WAL of its own.",
            remedy: "Remove the other links (find them with `find -samefile`), or copy the store instead of linking "
                + "it.")
    }

    func headerDamaged(_ damage: HeaderDamage) -> StoreError {
        StoreError(
            .headerDamaged,
            what: "The plaintext header of \"\(path)\" is damaged.",
            why: "Byte \(damage.offset) holds \(damage.found) where \(damage.expected) belongs"
                + (damage.wrongBytes > 1
                    ? ", and \(CountText.text(damage.wrongBytes - 1, "more byte is", "more bytes are")) wrong." : "."),
            remedy: "Restore the file from a backup. Do not write to it: a wrong header makes writes destroy pages.")
    }

    func headerLost(bytes: Int) -> StoreError {
        StoreError(
            .headerDamaged,
            what: "The plaintext header of \"\(path)\" is damaged.",
            why: "Its first \(bytes) bytes are not those of a store, but page 1 is authentic under the key.",
            remedy: "Restore the file from a backup, or copy its rows into a new store with `cipherctl salvage`.")
    }

    func pageCountLowered(pages: Int, bytes: Int, pageBytes: Int) -> StoreError {
        StoreError(
            .headerDamaged,
            what: "The plaintext header of \"\(path)\" is damaged.",
            why:
                "Its bytes 28 to 31 count \(pages) page\(pages == 1 ? "" : "s") of \(pageBytes) bytes, but the file has \(bytes) bytes.",
            remedy: "Restore the file from a backup. Do not write to it: new pages would overwrite old ones.")
    }

    func pageDamaged(_ page: UInt32) -> StoreError {
        StoreError(
            .pageDamaged(page),
            what: "Page \(page) of \"\(path)\" is damaged.",
            why: "Its authentication code does not fit its content, while the key fits the store.",
            remedy: "Run `cipherctl verify` to see every damaged page, and restore the file from a backup.")
    }

    /// - Parameter pagesInWAL: How many pages the committed frames of the WAL have.
    func truncated(expectedPages: Int, bytes: Int, pageBytes: Int, pagesInWAL: Int = 0) -> StoreError {
        let rest =
            pagesInWAL == 0
            ? ", and the WAL does not contain the rest." : ". The WAL has \(CountText.text(pagesInWAL, "page")) of it."
        return StoreError(
            .truncated,
            what: "The end of \"\(path)\" is missing.",
            why: (expectedPages == 1
                ? "At least one page of \(pageBytes) bytes belongs to it"
                : "According to its header or WAL \(expectedPages) pages of \(pageBytes) bytes belong to it")
                + ", but it has \(CountText.text(bytes, "byte"))" + rest,
            remedy: Self.remedyForLostPages)
    }

    private static let remedyForLostPages =
        "Restore the file from a backup, or copy what is left into a new store with `cipherctl salvage`."

    func walOfOtherDatabase(pageBytes: Int, expected: Int) -> StoreError {
        let log = StorePaths(path).wal
        return StoreError(
            .walDamaged,
            what: "\"\(log)\" is not the WAL of \"\(path)\".",
            why: "Its pages have \(pageBytes) bytes, those of the database \(expected).",
            remedy: "Put the WAL of this database back in its place. If there is none, move that file away: commits "
                + "that were only in the WAL are then missing.")
    }

    func walOfOtherVersion(_ version: UInt32) -> StoreError {
        StoreError(
            .walDamaged,
            what: "\"\(path)\" cannot be opened with its WAL.",
            why: "The header of \"\(StorePaths(path).wal)\" names format version \(version), and SQLite knows version "
                + "\(WALHeader.formatVersion) only.",
            remedy: "Put the WAL of this database back in its place. If there is none, move it away: commits that were "
                + "only in the WAL are then missing.")
    }

    func foreignSidecar(_ sidecar: Sidecar?) -> StoreError { .foreignSidecar(path, sidecar) }

    func wrongKey(_ first: [UInt8]) -> StoreError {
        StoreError(
            .wrongKey,
            what: "The key does not open \"\(path)\".",
            why: "The authentication code of page 1 does not fit it.",
            remedy: "Check the key. `cipherctl adopt --compatibility` makes a store of a file of SQLCipher 1 to 3; a "
                + "program opens such a file with PRAGMA cipher_compatibility after the key.")
    }

    /// SQLite has tried for seconds to lock the WAL index. A user who may only read the file can hold such a lock.
    func indexLocked() -> StoreError {
        let index = StorePaths(path).sharedMemory
        let owner = ProcessInspector.openings(of: index).first { opening in
            opening.process != ProcessInspector.currentProcess
                && opening.lockedRanges.contains { $0.overlaps(WALLockByte.all.lowerBound...WALLockByte.open - 1) }
        }
        let name = owner.map { "process \($0.process)" } ?? "another process"
        return StoreError(
            .storeInUse,
            what: "\"\(path)\" could not be opened: its WAL index \"\(index)\" stays locked.",
            why: name.prefix(1).uppercased() + name.dropFirst()
                + " holds the locks. A user who may only read the file can do that, too.",
            remedy: owner == nil
                ? "Try again. Run the command as root to learn the process, and end it. Give users whom you do not trust "
                    + "a backup instead of the right to read." : "Try again, or end that process.")
    }

    /// Why a connection that only reads could not use the WAL; nil when the reason is unknown.
    func reasonLogNotOpened() -> (any Error)? {
        let paths = StorePaths(path)
        let parts = [paths.wal, paths.sharedMemory]
        let missing = parts.filter { !Files.exists($0) }
        guard let first = missing.first else {
            return parts.first { !Files.canRead(file: $0) }.map { SystemError.permissionDenied("open", $0) }
        }
        if Files.isOnReadOnlyFilesystem(path) {
            return StoreError(
                .walMissing,
                what: "\"\(path)\" cannot be read here: \"\(first)\" is missing.",
                why: "Reading needs the WAL and its index (-wal, -shm), and the filesystem is mounted read-only.",
                remedy: "Copy the store with all files of its name to a filesystem that is not read-only, or make a "
                    + "backup where it can be written: a backup is read in place.")
        }
        return StoreError(
            .walMissing,
            what: "\"\(path)\" cannot be read here: \"\(first)\" is missing.",
            why: "Reading needs the WAL and its index (-wal, -shm), and this process may not create them.",
            remedy:
                "Open the store once for writing with `cipherctl sql --write` (SharedStore.open in a program), as the "
                + "owner of its folder: that leaves both files in place. If you copy the store, copy them too.")
    }

    static func emptyFile(_ path: String) -> StoreError {
        let logged = (try? pagesInWAL(of: path)) ?? 0
        // SQLite would remove the WAL of such a file.
        if logged > 0 {
            return StoreError(
                .emptyFile,
                what: "\"\(path)\" has no bytes.",
                why: "Its sidecar says that the store was created and is ready. Its WAL has "
                    + "\(CountText.text(logged, "page")) of it.",
                remedy: remedyForLostPages + " Keep the WAL until then.")
        }
        return StoreError(
            .emptyFile,
            what: "\"\(path)\" has no bytes.",
            why: "Its sidecar says that the store was created and is ready, so its content is gone.",
            remedy: "Restore the file from a backup. To start with an empty store instead, move away what is left "
                + "of this one: the files of its name that end with -sidecar, -sidecar.bak, -wal, -shm and -keylog.")
    }

    static func notYetCreated(_ path: String) -> StoreError {
        StoreError(
            .noSuchStore,
            what: "There is no store at \"\(path)\" yet.",
            why: "Its file has no content, and a connection that only reads cannot create it.",
            remedy: "Open it once for writing.")
    }

    /// Why SQLite was unable to open a file; nil when the reason is unknown.
    static func reasonNotOpened(_ path: String, readonly: Bool) -> (any Error)? {
        do {
            switch try Files.kind(path) {
            case .directory:
                return StoreError(
                    .noSuchStore,
                    what: "\"\(path)\" is a directory.",
                    why: "A store is a file with others beside it.",
                    remedy: "Name the file inside the directory.")
            case .other:
                return StoreError(
                    .noSuchStore,
                    what: "\"\(path)\" is a device, a pipe or a socket.",
                    why: "A store is a regular file with others beside it.",
                    remedy: "Give the name of a file; nothing was changed.")
            case nil:
                let directory = Files.directory(of: path)
                let kind = try Files.kind(directory)
                if kind != .directory {
                    if path.hasSuffix("/") {
                        return StoreError.noStore(
                            at: path, why: "The path of a file has a slash at its end.", remedy: "Remove the slash.")
                    }
                    return StoreError.noStore(
                        at: path,
                        why: kind == nil
                            ? "The directory \"\(directory)\" does not exist." : "\"\(directory)\" is not a directory.",
                        remedy: kind == nil ? "Create the directory, or check the path." : "Check the path.")
                }
                if readonly {
                    return StoreError.noStore(
                        at: path, why: "The file does not exist, and a connection that only reads cannot create it.",
                        remedy: "Check the path, or open it once for writing.")
                }
                return Files.canWrite(directory: directory) ? nil : SystemError.permissionDenied("open", path)
            default:
                return Files.canRead(file: path) ? nil : SystemError.permissionDenied("open", path)
            }
        } catch {
            return error
        }
    }
}

extension StoreError {
    /// A WAL whose last commit counts other pages than page 1 does. SQLite reads as many as page 1 counts, and a checkpoint
    /// gives the file the length of the other.
    package static func otherPageCount(_ path: String, wal: Int, header: Int) -> StoreError {
        let log = StorePaths(path).wal
        return StoreError(
            .walDamaged,
            what: "\"\(log)\" was changed, or is not the WAL of \"\(path)\".",
            why: "Its last commit counts \(CountText.text(wal, "page")), and page 1 of the database counts \(header). "
                + "A checkpoint would give the database that length.",
            remedy: "Put the WAL of this database back in its place. If there is none, move that file away: commits "
                + "that were only in it are then missing, so compare with the last backup. Nothing was changed.")
    }
}
