import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Reads the status of a store without opening it: its files, its sidecar, its location and its users.
///
/// ```swift
/// let status = try StoreStatus("app.db").run()
/// print(status.state, status.walBytes, status.attention)
/// ```
///
/// No SQLite connection is made, so a damaged store can be examined, and nothing is locked or changed. Only where a key
/// is given and the store records its changes it is opened for reading, for ``Report/history``.
public struct StoreStatus: StoreTool {
    /// The database file of the store.
    public let path: String
    /// How old keys and backups may become before they need attention.
    public var policy = KeyPolicy()
    private let key: ToolKey?

    /// - Parameters:
    ///   - path: The database file of the store.
    ///   - source: The source of the key; it is read once. Without one nothing is authenticated: the report is what the
    ///     sidecar claims.
    public init(_ path: String, unlockedBy source: KeySource? = nil) {
        self.init(path, key: source.map { ToolKey($0) })
    }

    package init(_ path: String, key: ToolKey?) {
        self.path = path
        self.key = key
    }

    /// - Throws: `StoreError` `noSuchStore`; with a key `wrongKey`, `sidecarDamaged` or `sidecarForged`, and
    ///   `keyRotated` where the store is given other keys again and again meanwhile; `SystemError`;
    ///   `CancellationError`.
    public func perform(_ run: ToolRun) throws -> Report {
        var report = try Report(path)
        // Parts of two stores exist then: no key fits both.
        if let key, report.interruptedRestoration == nil {
            try report.authenticate(KeyChange(of: path).settledSidecar(key.unlocked(), run), run)
        }
        report.take(FilePermissions(paths: StorePaths(path)).kindFindings())
        report.take(report.historyReading.findings.filter(\.needsAttention))
        if let finding = report.age?.finding, finding.needsAttention { report.take([finding]) }
        report.take(report.keyHealth.findings(policy).filter(\.needsAttention))
        report.notices = run.notices
        return report
    }

    /// The state of a store according to its sidecar.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// The store is being created or adopted, or that was interrupted.
        case creating
        /// The store is complete.
        case ready
        /// A rotation runs, or was interrupted.
        case rotating
        /// A rotation is putting the copy in the database's place, or was interrupted while it did so.
        case switching
    }

    /// The status that was read.
    public struct Report: Sendable {
        /// The state of one copy of the sidecar.
        package struct Copy: Sendable {
            package let copy: SidecarCopy
            /// `ok`, `missing`, `damaged`, `unreadable`, `stale`, `forged`, `other_key`, `differing`.
            package var state: String

            /// The state as a part of a sentence.
            var adjective: String {
                switch state {
                case "other_key": "sealed with another key"
                case "differing": "another version with the number of the main copy"
                default: state
                }
            }
        }

        /// The path that was examined.
        public let path: String
        /// The backup to which the database belongs; nil for a store.
        package let backup: BackupBundle?
        /// The sidecar, authenticated by the key, or without a key as it claims to be; nil when no copy can be read.
        package var sidecar: Sidecar?
        /// Whether a key has authenticated the sidecar.
        public private(set) var isAuthenticated = false
        /// Whether that sidecar is the newest one; nil without a key.
        package private(set) var age: SidecarAge?
        package private(set) var copies: [Copy]
        /// Size of the database file in bytes.
        public let fileBytes: Int
        /// Size of the WAL in bytes.
        public let walBytes: Int
        /// Committed frames in the WAL.
        public let walFrames: Int
        /// Frames of the WAL that are already in the database file; nil when no process has the WAL open.
        public let copiedFrames: Int?
        /// The processes that read an old snapshot, and so prevent a reset of the WAL.
        public let walReaders: [WALReader]
        /// Pages at the last commit, according to header and WAL.
        public let pages: Int
        /// The fault in the length of the database; nil for none.
        let lengthFault: WALContent.LengthFault?
        /// The names that the database file has.
        let names: UInt64
        /// The loss in the WAL; nil for none.
        package private(set) var walLoss: WALContent.Loss?
        /// The copies that openings have kept of a damaged WAL, the oldest first.
        public let keptWALs: [String]
        /// The folder with the files of the store that an interrupted restoration was replacing; nil where there is none.
        let interruptedRestoration: String?
        let verdict: HeaderVerdict
        /// Whether a process has the store open as a shared store; nil when that cannot be determined.
        let isLeased: Bool?
        /// The processes that have the store open, read or write; nil when that cannot be determined.
        public let holders: StoreHolders?
        package let filesystem: FilesystemKind
        /// Whether a process gives the store another key at this moment.
        private(set) var isRotationRunning = false
        /// Whether a rotation that the sidecar recorded has ended since.
        private var isOutdated = false
        /// The findings that need attention, each with its remedy.
        private(set) var findings: [Finding] = []
        /// The changes that the store records; `none` without a key.
        package private(set) var historyReading = StoreHistoryStatus.Reading.none
        /// The age of the keys, and whether the key log is intact.
        package private(set) var keyHealth: KeyHealth
        /// The notices of opening the store, where that was necessary.
        public internal(set) var notices: [String] = []
    }
}

extension StoreStatus.Report {
    /// The state according to the sidecar; nil when no copy of it can be read.
    public var state: StoreStatus.State? { sidecar.flatMap { StoreStatus.State(rawValue: $0.state.rawValue) } }
    /// The store's identifier, which never changes.
    public var storeID: StoreID? { sidecar?.storeID }
    /// The version of the sidecar; each change increments it.
    public var generation: UInt64? { sidecar?.generation }
    /// How the pages are encrypted.
    public var settings: CipherSettings? { sidecar?.settings }
    /// How the store keeps its key, and which slots open it.
    public var keys: StoreKeys.Summary? { sidecar.map { StoreKeys.Summary($0) } }
    /// The changes that the store records; nil if it records none, without a key, and if they cannot be read.
    public var history: StoreHistoryStatus? {
        if case .found(let history) = historyReading { history } else { nil }
    }
    /// Whether the store records a newer sidecar than the present one; nil when that is not known.
    public var isRolledBack: Bool? {
        switch age {
        case .newest: false
        case .rolledBack: true
        case .unknown, .foreign, nil: nil
        }
    }
    /// The type of the filesystem, such as `ext4`.
    public var filesystemName: String { filesystem.name }
    /// Whether locks and shared memory work between processes on the filesystem.
    public var isFilesystemSafe: Bool { filesystem.isSafeForSharedWAL }
    /// When the data key was made; nil when neither sidecar nor key log contains it.
    public var dataKeyCreated: Date? { keyHealth.keyCreated.map { Date(timeIntervalSince1970: TimeInterval($0)) } }
    /// When a backup was last verified; nil when the key log contains none.
    public var backupVerified: Date? { keyHealth.backupVerified.map { Date(timeIntervalSince1970: TimeInterval($0)) } }
    /// Whether the key log is unchanged, as far as its chain proves.
    public var isKeyLogSound: Bool { keyHealth.logProblems.isEmpty && keyHealth.unreadLog == nil }
    /// The findings that need attention, each as a sentence without its full stop, with what to do.
    public var attention: [String] { findings.map(\.text) }
    /// Whether any process has the store open, according to its lease, SQLite's locks, or the open files that the
    /// system shows; nil when none of these shows one and one of them cannot be read.
    public var isInUse: Bool? {
        if isLeased == true || holders?.isEmpty == false { return true }
        return isLeased == nil || holders == nil ? nil : false
    }
}

extension StoreStatus.Report {
    /// - Throws: `StoreError` `noSuchStore`, `SystemError`.
    init(_ path: String) throws {
        var report = try StoreStatus.Report(reading: path)
        // A rotation that the sidecar recorded has ended meanwhile, or another one has begun.
        for _ in 1..<ToolLimits.readings where report.isOutdated { report = try StoreStatus.Report(reading: path) }
        self = report
    }

    /// The same where the sidecar is known to be forged: nothing is concluded from what it claims.
    ///
    /// - Throws: `StoreError` `noSuchStore`, `SystemError`.
    init(withoutSidecar path: String) throws { try self.init(reading: path, believesSidecar: false) }

    private init(reading path: String, believesSidecar: Bool = true) throws {
        self.path = path
        backup = BackupBundle(holding: path)
        guard let kind = try Files.kind(path), kind == .regular else { throw StoreOpening.noSuchStore(path) }
        fileBytes = try Files.byteCount(path) ?? 0
        filesystem = try FilesystemKind.of(path)
        let read = SidecarFiles(databasePath: StorePaths(path).database).read()
        copies = SidecarCopy.allCases.map { Copy(copy: $0, state: read[$0].stateName) }
        sidecar = believesSidecar ? read.newestClaimed : nil
        let first = try RawFile(path).bytes(at: 0, count: 4096)
        verdict = try WALContent.verdict(of: path, first: first, fileBytes: fileBytes, settings: sidecar?.settings)
        let log = try WALContent(of: path)
        walBytes = log.bytes
        walFrames = Int(log.scan?.committedFrames ?? 0)
        pages = log.pages(first)
        walLoss = try log.loss(of: path, nil) == nil ? nil : WALContent.loss(of: path, nil)
        lengthFault = try (sidecar?.settings.pageBytes).flatMap { try WALContent.lengthFault(of: path, pageBytes: $0) }
        var names = UInt64(1)
        // A name that another program has for a moment is none that matters.
        _ = try Polling.holds {
            names = try Files.status(of: path)?.linkCount ?? 1
            return names > 1
        }
        self.names = names
        keptWALs = backup == nil ? (try? DamagedWAL.copies(of: StorePaths(path))) ?? [] : []
        interruptedRestoration = (try? InterruptedRestoration.folder(of: StorePaths(path))) ?? nil
        let index = Self.index(path)
        copiedFrames = index.map { Int($0.checkpointedFrames) }
        walReaders = index.map { WALReader.blocking($0, sharedMemory: StorePaths(path).sharedMemory) } ?? []
        isLeased = try? Self.isLeased(path)
        holders = try? StoreHolders(of: path)
        keyHealth = KeyHealth(StorePaths(path), sidecar)
        findRisks()
    }

    /// The header of the wal-index, which is valid only while a process has it open.
    private static func index(_ path: String) -> WALIndex? {
        let file = StorePaths(path).sharedMemory
        guard let locks = try? SystemLocks.posixLocks(on: file), !locks.isEmpty,
            let bytes = try? RawFile(file).bytes(at: 0, count: WALIndex.headerBytes)
        else { return nil }
        return bytes.withUnsafeBytes { WALIndex($0) }
    }

    private static func isLeased(_ path: String) throws -> Bool {
        let lock = StorePaths(path).lock
        // The check must not create the file.
        guard Files.exists(lock) else { return false }
        return try LockFile(path: lock, likeFile: path, allowsReadOnly: true).isHeld(.lease)
    }

    // MARK: With the key

    /// Adds the facts that the key proves.
    ///
    /// Sidecar, page 1 and locks are read one after the other. If a rotation that ended meanwhile explains a mismatch,
    /// all are read again.
    ///
    /// - Throws: `StoreError` `keyRotated` and the errors of the sidecar; `SystemError`, `CancellationError`.
    mutating func authenticate(_ choice: AuthenticatedSidecar, _ run: ToolRun = ToolRun()) throws {
        let change = KeyChange(of: path)
        var choice = choice
        for _ in 1..<ToolLimits.readings {
            if try prove(choice) { return }
            choice = try change.sidecar(after: choice, run)
            self = try StoreStatus.Report(path)
        }
        if try !prove(choice) { try change.requireNone(since: choice) }
    }

    /// - Returns: Whether what was read belongs together.
    private mutating func prove(_ choice: AuthenticatedSidecar) throws -> Bool {
        sidecar = choice.sidecar
        isAuthenticated = true
        keyHealth = KeyHealth(StorePaths(path), sidecar)
        age = SidecarAge(path, choice)
        historyReading = choice.sidecar.state == .ready ? StoreHistoryStatus.read(path, choice) : .none
        for note in KeyChange(of: path).lastingNotes(choice) {
            guard let (copy, state) = note.subject else { continue }
            for index in copies.indices where copies[index].copy == copy { copies[index].state = state }
        }
        findings = []
        // The key shows more, and that some of it is none.
        walLoss = try WALContent.loss(of: path, choice.pageKey)
        findRisks(choice)
        guard try firstPageIsAuthentic(choice) else {
            do {
                try KeyChange(of: path).requireNone(since: choice)
            } catch let error as StoreError where error.isChangeMeanwhile {
                return false
            }
            findings.append(try unfitting(choice))
            return true
        }
        if let foreign = keyHealth.foreignLog { findings.append(foreign) }
        return !isOutdated
    }

    /// The finding about a page 1 that is not authentic. The key has proved the sidecar: if no other page is authentic either,
    /// the sidecar is that of another store.
    private func unfitting(_ choice: AuthenticatedSidecar) throws -> Finding {
        let sidecar = choice.sidecar
        // A sidecar that the key log proves explains no page 1, unless a rotation does.
        let mayBeOther = keyHealth.isOwnSidecar != true || sidecar.epoch > 1 || keyHealth.isRotatedSince
        if mayBeOther, try SidecarAge.fitsNoPage(path, choice) { return .foreignSidecar(path, sidecar) }
        return Finding(
            .problem, "pageDamaged", "page 1 does not fit the key of the sidecar",
            remedy: "see what else is damaged: `cipherctl verify \(place)`; then \(restoring)")
    }

    private func firstPageIsAuthentic(_ choice: AuthenticatedSidecar) throws -> Bool {
        var codec = try choice.dataKey.withSecret { secret in
            try PageCodec(dataKey: secret, salt: choice.sidecar.salt.bytes, settings: choice.sidecar.settings)
        }
        var polling = Polling.untilSettled()
        // A checkpoint may be writing the page.
        repeat {
            let page = try RawFile(path).bytes(at: 0, count: choice.sidecar.settings.pageBytes)
            if page.withUnsafeBytes({ codec.verify($0, number: 1) }) { return true }
        } while polling.sleep()
        // If a checkpoint was interrupted, the WAL has the page.
        return try AuthenticPages(path: path, file: RawFile(path), key: choice.pageKey).page(1) != nil
    }

    /// Adds findings that need attention.
    mutating func take(_ findings: [Finding]) { self.findings += findings.filter { !self.findings.contains($0) } }

    /// Whether a process holds the lock for changes of keys and rotations; nil when that cannot be determined.
    static func isChangingKeys(_ path: String) -> Bool? {
        let lock = StorePaths(path).lock
        guard Files.exists(lock) else { return false }
        return try? LockFile(path: lock, likeFile: path, allowsReadOnly: true).isHeld(.admin)
    }

    // MARK: Risks

    /// The notice for a store that was direct before it got keyslots, and still has that key.
    package static let formerPassphrase =
        "the former passphrase still opens the database until the data key is rotated: the store was direct before it "
        + "got keyslots"

    /// The note about a rotation that is running; nil where none is.
    package var rotationNote: String? {
        isRotationRunning ? "a rotation is running: the store is being given another key" : nil
    }

    /// The meaning of a sidecar in state `creating` beside the present file.
    private var interruptedCreation: (what: String, remedy: String) {
        switch verdict {
        case .opaque:
            (
                "an adoption was interrupted before it changed the file, which opens as before",
                "start it again: `cipherctl adopt \(place)`"
            )
        case .plaintextHeader where pages > 1:
            (
                "an adoption was interrupted after it had converted the file; all rows are there",
                "complete it: `cipherctl adopt \(place)`; the next opening for writing completes it too"
            )
        default:
            ("the creation of the store was interrupted", "complete it, with the same key: `cipherctl create \(place)`")
        }
    }

    /// Holders that block others.
    private static func findings(about holders: StoreHolders) -> [Finding] {
        // A process is reported once, however many connections it has.
        var told: Set<Int32> = []
        return holders.compactMap { holder in
            guard holder.state == .stopped || holder.state == .zombie, told.insert(holder.process).inserted else {
                return nil
            }
            let uses = holders.filter { $0.process == holder.process }.flatMap(\.uses)
            if uses.contains(.writeTurn) || uses.contains(.writeLock) {
                return Finding(
                    .problem, "stoppedWriter",
                    "\(holder) holds the write lock: no other process can write until it resumes or ends",
                    remedy: "resume it (kill -CONT \(holder.process)), or end it")
            }
            if uses.contains(.readLock) {
                return Finding(
                    .problem, "stoppedReader",
                    "\(holder) is reading: the WAL cannot shrink until it resumes or ends",
                    remedy: "resume it (kill -CONT \(holder.process)), or end it")
            }
            return nil
        }
    }

    /// A rotation that runs needs no attention.
    private mutating func findRotation(_ choice: AuthenticatedSidecar?) {
        (isRotationRunning, isOutdated) = (false, false)
        guard let sidecar, sidecar.isRotationPending else { return }
        switch KeyChange(of: path).rotation(announcedBy: sidecar, choice) {
        case .running: isRotationRunning = true
        case .ended: isOutdated = true
        case .interrupted:
            add(
                "rotationInterrupted",
                "a rotation was interrupted: the next opening for writing completes or undoes it",
                "open it for writing: `cipherctl sql \(place) \"SELECT 1\" --write`; or continue it: `cipherctl rotate "
                    + "\(place) --resume --no-backup`")
        }
    }

    private mutating func add(_ name: String, _ what: String, _ remedy: String) {
        findings.append(Finding(.problem, name, what, remedy: remedy))
    }

    /// The path as a word of a shell.
    private var place: String { ShellWord.path(path) }

    private var restoring: String {
        "restore the store from a backup: `cipherctl restore DIR \(place) --replace`; or copy its rows into a new store: "
            + "`cipherctl salvage \(place) NEW`"
    }

    /// Whether a finding names a file that this user may not use.
    var deniesAccess: Bool { findings.contains { $0.name == "noAccess" } }

    /// The finding about a file that is no store; nil for one that is, or was.
    var foreignFile: Finding? {
        guard backup == nil, copies.allSatisfy({ $0.state == "missing" }) else { return nil }
        return ForeignFile(StorePaths(path), verdict)?.finding
    }

    /// - Parameter choice: The sidecar, if a key has authenticated it.
    private mutating func findRisks(_ choice: AuthenticatedSidecar? = nil) {
        if let interruptedRestoration {
            // The files belong to two stores and do not describe either.
            findings = [.restorationInterrupted(path, interruptedRestoration)]
            return
        }
        if let foreignFile {
            findings = [foreignFile]
            return
        }
        findCopies(choice)
        switch sidecar?.state {
        case .creating: add("creationInterrupted", interruptedCreation.what, interruptedCreation.remedy)
        case .rotating, .switching, .ready, nil: findRotation(choice)
        }
        findHeader()
        if names > 1, backup == nil {
            add(
                "severalNames", "the database file has \(names) names, and no opening accepts that",
                "remove the other links: `find DIR -samefile \(place)` names them")
        }
        if let lengthFault {
            let verifying = "see what is damaged: `cipherctl verify \(place)`; or "
            let isMissing = if case .missing = lengthFault { true } else { false }
            add("wrongLength", lengthFault.text, (isMissing ? "" : verifying) + restoring)
        }
        findings += walFindings(choice)
        if let backup {
            findings += backup.companions.filter(\.mayHoldWrites).map(Finding.backupCompanion)
        } else {
            findings += CompanionFindings(paths: StorePaths(path)).findings()
        }
        if let holders { findings += Self.findings(about: holders) }
        if !filesystem.isSafeForSharedWAL {
            add(
                "unsupportedFilesystem", "stores are not safe on \(filesystem.name)",
                "move the store, with all files of its name, to a local filesystem")
        }
        if walBytes > ToolLimits.largeWALBytes {
            let readers = walReaders.map(\.description).joined(separator: ", ")
            add(
                "largeLog",
                "the WAL has \(walBytes >> 20) MiB"
                    + (readers.isEmpty ? "" : ", and cannot shrink while these read an old snapshot: \(readers)"),
                readers.isEmpty
                    ? "open the store for writing, which copies it into the file: `cipherctl sql \(place) \"SELECT 1\" --write`"
                    : "let them end their transactions or snapshots")
        }
    }

    /// - Parameter choice: The sidecar, if a key has authenticated it.
    private mutating func findCopies(_ choice: AuthenticatedSidecar?) {
        let isRepairable = copies.contains { $0.state == "ok" }
        for copy in copies where copy.state != "ok" && !(backup != nil && copy.copy == .backup) {
            // A file of another kind, one that this user may not read, and one with a lease are findings of their own.
            let place = copy.copy == .main ? StorePaths(path).sidecar : StorePaths(path).sidecarBackup
            if let kind = try? Files.kind(place), kind != .regular { continue }
            if backup == nil, Files.exists(place), !Files.canRead(file: place) { continue }
            if backup == nil, ((try? SystemLocks.leases(on: place)) ?? nil)?.isEmpty == false { continue }
            let isUnread = copy.state == "unreadable"
            add(
                "sidecarCopy",
                "the \(copy.copy.rawValue) copy of the sidecar is \(copy.adjective)",
                (isUnread ? "the system cannot read the file: check the disk; then \(Finding.moving(place)); " : "")
                    + (isRepairable
                        ? "the next opening for writing restores it from the other one"
                        : "put it back: it is \"store.db-sidecar\" in the folder of a backup of this store"))
        }
        // A key that fits the pages proves the sidecar, and the key log is the foreign one.
        if choice == nil, backup == nil, let foreign = keyHealth.foreignSidecar(path) { findings.append(foreign) }
    }

    private mutating func findHeader() {
        switch verdict {
        case .plaintextHeader: break
        case .damagedHeader(let damage):
            add("headerDamaged", "byte \(damage.offset) of the header is wrong", restoring)
        case .plainSQLite:
            add(
                "notEncrypted", "the file is plain SQLite: it is not encrypted",
                "encrypt it into a new store: `cipherctl import \(place) NEW`")
        case .empty where sidecar?.state == .creating: break
        case .empty:
            add(
                "emptyFile", "the file has no bytes",
                "restore the store from a backup: `cipherctl restore DIR \(place) --replace`")
        case .opaque where sidecar?.state == .creating: break
        case .tooShort, .opaque:
            add(
                "notEncrypted", "the file does not have the header of a store",
                "check the path; if it was a store, \(restoring)")
        }
    }
}

extension Finding {
    /// The key opens the sidecar and no page.
    ///
    /// - Parameter sidecar: The sidecar that the key opens.
    static func foreignSidecar(_ path: String, _ sidecar: Sidecar) -> Finding {
        let error = StoreError.foreignSidecar(StorePaths(path).database, sidecar)
        return Finding(.problem, error.code.name, "\(error.what) \(error.why)", remedy: error.remedy)
    }

    /// The remedy that moves a file away, under a name that means nothing to the library.
    static func moving(_ path: String) -> String {
        "move it away: `mv \(ShellWord.path(path)) \(ShellWord.path(path + ".moved"))`"
    }

    /// A file of SQLite in the folder of a backup.
    static func backupCompanion(_ companion: BackupBundle.Companion) -> Finding {
        Finding(
            companion.mayHoldWrites ? .risk : .note, "backupCompanion", companion.what, remedy: companion.remedy)
    }

    /// A store of which no file may be removed, and that no process opens.
    static func restorationInterrupted(_ path: String, _ folder: String) -> Finding {
        Finding(
            .problem, "restorationInterrupted",
            "a restoration was interrupted: no process can open the store until it is run again",
            remedy: "run it again, which resumes it: `cipherctl restore DIR \(ShellWord.path(path)) --replace`. Remove "
                + "neither \"\(Files.name(of: path))-restoring\" nor \"\(Files.name(of: folder))\", which holds the files of the "
                + "former store")
    }
}

extension SidecarContent {
    fileprivate var stateName: String {
        switch self {
        case .absent: "missing"
        case .unreadable: "unreadable"
        case .damaged: "damaged"
        case .present: "ok"
        }
    }
}

extension SidecarNote {
    /// The copy that a note is about, and the state that the note means.
    fileprivate var subject: (SidecarCopy, String)? {
        switch self {
        case .restoredFromBackup: nil
        case .missing(let copy): (copy, "missing")
        case .unreadable(let copy, _): (copy, "unreadable")
        case .damaged(let copy, _): (copy, "damaged")
        case .forged(let copy): (copy, "forged")
        case .otherKey(let copy): (copy, "other_key")
        case .stale(let copy, _, _): (copy, "stale")
        case .differing: (.backup, "differing")
        }
    }
}
