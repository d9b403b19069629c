import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// Finds problems and risks of a store, from the library to the last file next to it, each with a remedy.
///
/// ```swift
/// let report = try StoreExamination("app.db", unlockedBy: .keyFile(path: "app.key")).run()
/// for finding in report.findings where finding.needsAttention { print(finding.text) }
/// ```
///
/// Nothing is locked for others or changed, and a damaged store can be examined as well. With a key the store is opened
/// read-only, to compare its full-text indexes with their texts.
/// ``StoreVerification`` reads every page.
public struct StoreExamination: StoreTool {
    /// The database file of the store.
    public let path: String
    /// How old keys and backups may become before that is a finding.
    public var policy = KeyPolicy()
    /// The file that holds the key, which is examined too; nil for none.
    public var keyFile: String?
    /// Its `prepareDatabase` gives the connection the functions, collations and tokenizers that the schema needs. A
    /// full-text index without its tokenizer is not checked, in a note.
    public var configuration = Configuration()
    private let key: ToolKey?

    /// - Parameters:
    ///   - path: The database file of the store.
    ///   - source: Where the key comes from; it is read once. Without one nothing is authenticated.
    public init(_ path: String, unlockedBy source: KeySource? = nil) {
        self.init(path, key: source.map { ToolKey($0) })
    }

    package init(_ path: String, key: ToolKey?) {
        self.path = path
        self.key = key
    }

    /// The findings of an examination.
    public struct Report: Sendable {
        /// The findings, the most severe first.
        public internal(set) var findings: [Finding]
        /// The status of the store.
        public internal(set) var status: StoreStatus.Report
        /// The notices of opening the store, where that was necessary.
        public internal(set) var notices: [String]

        /// Whether a finding is more than a note.
        public var needsAttention: Bool { findings.contains(where: \.needsAttention) }
    }

    /// - Throws: `StoreError` `noSuchStore`, `keyRotated` where the store is given another key meanwhile;
    ///   `SystemError`. A key that is refused or wrong is a finding.
    public func perform(_ run: ToolRun) throws -> Report {
        var status = try StoreStatus.Report(path)
        // The key would be refused, and nothing that is checked for a store applies.
        if let foreign = status.foreignFile { return Report(findings: [foreign], status: status, notices: run.notices) }
        let paths = StorePaths(path)
        var findings: [Finding] = []
        var unlocked: AuthenticatedSidecar?
        // Without the library no key can be tried; that is a finding of its own.
        if let key, (try? SQLiteLibrary.requireCipher()) != nil {
            let source = try key.source()
            if let keyFile { findings += FilePermissions.keyFileFindings(keyFile, store: paths) }
            if let warning = source.warning { findings.append(Finding(.risk, "keySource", warning)) }
            // A refused key file, or a wrong key, is a finding, and the rest is still examined.
            do {
                // Parts of two stores exist after an interrupted restoration: no key fits both.
                if status.interruptedRestoration != nil {
                    _ = try key.read(source)
                } else {
                    let choice = try KeyChange(of: path).settledSidecar(key.read(source), run)
                    try status.authenticate(choice, run)
                    unlocked = choice
                }
            } catch let error as StoreError where !error.isKeyRotated {
                if !findings.contains(where: { $0.severity == .problem }) {
                    findings.append(
                        Finding(.problem, error.code.name, "\(error.what) \(error.why)", remedy: error.remedy))
                }
                if error.code == .sidecarForged { status = try StoreStatus.Report(withoutSidecar: path) }
            } catch let error as SystemError where error.isPermission && status.deniesAccess {
                // The finding names the file, and how it is read again.
            }
        }
        if let finding = status.age?.finding { findings.append(finding) }
        findings += status.keyHealth.findings(policy)
        findings += status.keyHealth.logNotes.map {
            Finding(.note, "keyLogBehind", $0, remedy: "see: cipherctl key log")
        }
        findings += status.historyReading.findings
        findings += StoreCheckup(paths: paths, status: status).findings()
        // Only where nothing else has prevented that the store is opened.
        if let unlocked, !findings.contains(where: { $0.severity == .problem }) {
            findings += try FullTextCheck.findings(
                BackupBundle.database(meantBy: path), unlocked, configuration, run)
        }
        // The key and the key log may both show that the sidecar is another store's.
        var told: Set<String> = []
        let distinct = findings.filter { told.insert($0.name == "foreignSidecar" ? $0.name : $0.text).inserted }
        return Report(findings: distinct, status: status, notices: run.notices)
    }
}

/// Everything that an examination checks but the key.
private struct StoreCheckup {
    let paths: StorePaths
    /// The status, with the facts that the key proves, if a key is given.
    let status: StoreStatus.Report

    func findings() -> [Finding] {
        let found =
            library() + place() + state() + keys() + log() + users() + FilePermissions(paths: paths).findings()
            + StrayFiles(
                paths: paths, isRotating: isRotating, interruptedRestoration: status.interruptedRestoration
            ).findings()
        return Finding.Severity.allCases.flatMap { severity in found.filter { $0.severity == severity } }
    }

    /// Whether a rotation is pending or running, and the copy next to the store is its own.
    private var isRotating: Bool {
        let state = status.sidecar?.state
        return state == .rotating || state == .switching || StoreStatus.Report.isChangingKeys(paths.database) == true
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
        let filesystem = status.filesystem
        if !filesystem.isSafeForSharedWAL {
            return [
                Finding(
                    .problem, "unsupportedFilesystem",
                    "the store is on \(filesystem.name), on which locks and shared memory are not reliable",
                    remedy: "move it to a local filesystem")
            ]
        }
        if filesystem.isKnown { return [] }
        return [
            Finding(
                .note, "unknownFilesystem", "the filesystem (\(filesystem.name)) is not one that this program knows",
                remedy: "check that its byte locks and shared memory work between processes")
        ]
    }

    /// The state of file and sidecar, according to `status`.
    private func state() -> [Finding] {
        if let folder = status.interruptedRestoration { return [.restorationInterrupted(status.path, folder)] }
        if let sidecar = status.sidecar, sidecar.state == .creating, case .opaque = status.verdict {
            return [
                Finding(
                    .problem, "adoptionInterrupted",
                    "the adoption of this database was interrupted before it became a store",
                    remedy: "run `cipherctl adopt` again; until then it opens as before")
            ]
        }
        // A loss in the WAL is a finding of its own.
        let ownNames: Set<String> = [
            "foreignSidecar", "foreignKeyLog", "walKept", "noAccess", "lockFileForeign", "hardLinked", "alreadyExists",
            "backupCompanion", "strangersFile",
        ]
        var findings = status.findings.filter { $0.name != "commitsLost" }.map { finding in
            ownNames.contains(finding.name)
                ? finding : Finding(.problem, "attention", finding.what, remedy: finding.remedy)
        }
        if let note = status.rotationNote {
            findings.append(Finding(.note, "rotationRuns", note, remedy: "see: cipherctl rotate --status"))
        }
        if status.copies.allSatisfy({ $0.state == "missing" }) {
            findings.append(
                Finding(
                    .problem, "sidecarMissing",
                    "no copy of the sidecar is there: without its salt nothing opens the store",
                    remedy: remedyWithoutSidecar))
        }
        return findings
    }

    /// The remedy for a file without a sidecar, which may never have been a store.
    private var remedyWithoutSidecar: String {
        switch status.verdict {
        case .plainSQLite:
            "if it was a store, put it back from a backup; a plain database is encrypted into a new store with "
                + "`cipherctl import`"
        case .opaque(let traits) where traits.mayBeStandardSQLCipher:
            "if it was a store, put it back from a backup; a database of SQLCipher is adopted with `cipherctl adopt`"
        case .plaintextHeader, .damagedHeader: "put it back from a backup"
        default: "if it was a store, put it back from a backup; else check the path: this is no database"
        }
    }

    /// The findings about the keys in the sidecar.
    private func keys() -> [Finding] {
        guard status.interruptedRestoration == nil, let slotted = status.sidecar?.slotted else { return [] }
        var findings: [Finding] = []
        if slotted.dataKey.origin == .direct {
            findings.append(
                Finding(
                    .risk, "formerPassphrase", StoreStatus.Report.formerPassphrase, remedy: "rotate the data key"))
        }
        if slotted.table.slots.count == 1 {
            findings.append(
                Finding(
                    .note, "oneSlot", "only one keyslot opens the store: if its key is lost, everything is lost",
                    remedy: "add a recovery key, print it, and put it away"))
        }
        return findings
    }

    private func log() -> [Finding] {
        // A backup is read without both, and without a lock. No process opens a store whose restoration was
        // interrupted.
        if let backup = status.backup {
            return backup.companions.filter { !$0.mayHoldWrites }.map(Finding.backupCompanion)
        }
        if status.interruptedRestoration != nil { return [] }
        let note = status.walLoss.map { loss in
            if loss.preventsOpening {
                return Finding(.problem, "walDamaged", loss.note, remedy: loss.remedy(for: status.path))
            }
            return Finding(
                loss.needsAttention ? .risk : .note, loss == .allContent ? "walWithoutContent" : "walDamaged",
                loss.note, remedy: loss.remedy(for: status.path))
        }
        return [note].compactMap(\.self) + walFiles()
    }

    private func walFiles() -> [Finding] {
        let missing = [paths.wal, paths.sharedMemory].filter { !Files.exists($0) }
        if missing.isEmpty { return lockFile() }
        if let removed = (try? RemovedWAL(paths).fault()) ?? nil {
            return [Finding(.problem, "walRemoved", "\(removed.what) \(removed.why)", remedy: removed.remedy)]
                + lockFile()
        }
        let names = missing.map { "\"\(Files.name(of: $0))\"" }.joined(separator: " and ")
        return [
            Finding(
                .note, "walMissing", "\(names) missing: users who may not make files here cannot read the store",
                remedy: "open it once for writing: cipherctl sql --write")
        ] + lockFile()
    }

    /// The processes that have the store open.
    private func users() -> [Finding] {
        let readers = status.walReaders.map { reader in
            Finding(
                .note, "oldReader", "\(reader) reads an old snapshot: the WAL cannot shrink meanwhile",
                remedy: "let it end its transaction or snapshot")
        }
        let hasResetBug = !KnownBug.affecting(sqlite: SQLiteLibrary.sqliteVersion, sqlCipher: nil)
            .filter { $0.name == "WAL-reset" }.isEmpty
        guard hasResetBug, let holders = status.holders else { return readers }
        let strangers = holders.filter { $0.label == nil && $0.process != ProcessInspector.currentProcess }
        return readers
            + strangers.map { stranger in
                Finding(
                    stranger.uses.contains(.writeLock) ? .risk : .note, "stranger",
                    "\(stranger) has the store open and does not use this library's writer queue: if it writes with "
                        + "SQLite before 3.51.3 and checkpoints by itself, commits can be lost",
                    remedy: "let it write through this library, or run PRAGMA wal_autocheckpoint = 0 in it")
            }
    }

    private func lockFile() -> [Finding] {
        if Files.exists(paths.lock) { return [] }
        return [Finding(.note, "lockFileMissing", "there is no lock file; the next opening for writing creates it")]
    }
}
