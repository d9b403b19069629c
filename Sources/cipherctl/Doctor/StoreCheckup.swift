import CipherStore
import KeyCustody
import StorePlatform

/// Everything that `doctor` looks at, from the library to the last file beside the store.
struct StoreCheckup {
    let paths: StorePaths
    /// What `status` sees; with what the key proves, where one was given.
    let inspection: StoreInspection

    func findings() -> [Finding] {
        let found =
            library() + place() + state() + keys() + log() + users() + FilePermissions(paths: paths).findings()
            + StrayFiles(paths: paths, isRotating: isRotating).findings()
        return Finding.Severity.allCases.flatMap { severity in found.filter { $0.severity == severity } }
    }

    /// Whether a rotation is pending or at work, and the copy beside the store is its own.
    private var isRotating: Bool {
        let state = inspection.sidecar?.state
        return state == .rotating || state == .switching || StoreInspection.isChangingKeys(paths.database) == true
    }

    private func library() -> [Finding] {
        do {
            try SQLiteLibrary.requireCipher()
        } catch {
            return [Finding(.problem, error.code.name, "\(error.what) \(error.why)", remedy: error.remedy)]
        }
        return KnownBug.affecting(sqlite: SQLiteLibrary.sqliteVersion, sqlCipher: SQLiteLibrary.cipherVersion)
            .map(\.finding)
    }

    private func place() -> [Finding] {
        let filesystem = inspection.filesystem
        if !filesystem.isSafeForSharedWAL {
            return [
                Finding(
                    .problem, "unsupportedFilesystem",
                    "the store lies on \(filesystem.name), on which locks and shared memory are not reliable",
                    remedy: "move it to a local filesystem")
            ]
        }
        if filesystem.isKnown { return [] }
        return [
            Finding(
                .note, "unknownFilesystem", "the filesystem (\(filesystem.name)) is none that this program knows",
                remedy: "see that its byte locks and shared memory work between processes")
        ]
    }

    /// File and sidecar, as `status` judges them.
    private func state() -> [Finding] {
        if let sidecar = inspection.sidecar, sidecar.state == .creating, case .opaque = inspection.verdict {
            return [
                Finding(
                    .problem, "adoptionCut", "the adoption of this database was cut before it became a store",
                    remedy: "run `cipherctl adopt` again; until then it opens as before")
            ]
        }
        var findings = inspection.attention.map { Finding(.problem, "attention", $0) }
        if inspection.copies.allSatisfy({ $0.state == "missing" }) {
            findings.append(
                Finding(
                    .problem, "sidecarMissing",
                    "no copy of the sidecar is there: without its salt nothing opens the store",
                    remedy: "put it back from a backup; a file that never was a store is adopted with `cipherctl adopt`"
                ))
        }
        return findings
    }

    /// What the sidecar says of the keys.
    private func keys() -> [Finding] {
        guard let slotted = inspection.sidecar?.slotted else { return [] }
        var findings: [Finding] = []
        if slotted.dataKey.origin == .direct {
            findings.append(
                Finding(
                    .risk, "formerPassphrase", StoreInspection.formerPassphrase, remedy: "rotate the data key"))
        }
        if slotted.table.slots.count == 1 {
            findings.append(
                Finding(
                    .note, "oneSlot", "one key slot is all that opens the store: a key that is lost loses everything",
                    remedy: "add a recovery key, print it, and put it away"))
        }
        return findings
    }

    private func log() -> [Finding] {
        // A backup is read without both, and without a lock.
        if inspection.backup != nil { return [] }
        let missing = [paths.wal, paths.sharedMemory].filter { !Files.exists($0) }
        if missing.isEmpty { return lockFile() }
        let names = missing.map { "\"\(Files.name(of: $0))\"" }.joined(separator: " and ")
        return [
            Finding(
                .note, "logMissing", "\(names) missing: users who may not make files here cannot read the store",
                remedy: "open it once for writing: cipherctl sql --write")
        ] + lockFile()
    }

    /// Who has the store open.
    private func users() -> [Finding] {
        let readers = inspection.logReaders.map { reader in
            Finding(
                .note, "oldReader", "\(reader) reads at an old moment: the write-ahead log cannot shrink meanwhile",
                remedy: "let it end its transaction or snapshot")
        }
        let hasResetBug = !KnownBug.affecting(sqlite: SQLiteLibrary.sqliteVersion, sqlCipher: nil)
            .filter { $0.name == "WAL-reset" }.isEmpty
        guard hasResetBug, let holders = inspection.holders else { return readers }
        let strangers = holders.filter { $0.label == nil && $0.process != ProcessInspector.currentProcess }
        return readers
            + strangers.map { stranger in
                Finding(
                    stranger.uses.contains(.writeLock) ? .risk : .note, "stranger",
                    "\(stranger) has the store open and does not take turns with this library: if it writes with SQLite "
                        + "before 3.51.3 and checkpoints by itself, commits can be lost",
                    remedy: "let it write by way of this library, or run: PRAGMA wal_autocheckpoint = 0 in it")
            }
    }

    private func lockFile() -> [Finding] {
        if Files.exists(paths.lock) { return [] }
        return [Finding(.note, "lockFileMissing", "there is no lock file; the next opening for writing makes it")]
    }
}
