import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// Converts an SQLCipher database into a store, at the same path.
///
/// ```swift
/// let report = try StoreAdoption("app.db", unlockedBy: .keyFile(path: "app.key")).run()
/// ```
///
/// A database of SQLCipher 4 keeps its key and all pages but the first. One of an older version is copied row by row,
/// and the original stays beside it as `<path>.sqlcipher3` (or 2, or 1). The content hash is compared before the store
/// replaces the file. An interrupted adoption leaves the file as it was, or the store; run it again to complete it. No
/// process may have the database open, this one included.
public struct StoreAdoption: StoreTool {
    /// The database file.
    public let path: String
    /// The major version of SQLCipher that made the database, 1 to 4.
    public var sqlCipherVersion = 4
    /// How the store keeps its data key. With `.slots` the store finally gets a keyslot, and its former passphrase
    /// opens the database until the data key is rotated.
    public var scheme = KeyScheme.direct
    /// Its `prepareDatabase` gives the connections the functions, collations and modules that the schema needs.
    public var configuration = Configuration()
    private let key: ToolKey

    /// - Parameters:
    ///   - path: The database file.
    ///   - source: Where the key of the database comes from; it is read once, when the file has proved to be adoptable.
    public init(_ path: String, unlockedBy source: KeySource) { self.init(path, key: ToolKey(source)) }

    package init(_ path: String, key: ToolKey) {
        self.path = path
        self.key = key
    }

    /// The adopted store.
    public struct Report: Sendable {
        /// The database file.
        public let path: String
        /// The store's identifier, which never changes.
        public let storeID: StoreID
        /// The hash of the content, before and after; nil when an earlier adoption was completed.
        public let contentHash: ContentHash?
        /// The path at which the original is kept; nil when the store has its pages.
        public let original: String?
        /// The indexes that were not built, because they need what only the program has. Only a file of an older version
        /// is copied; the others keep all indexes.
        public let leftOut: [LeftOutIndex]
        /// The indexes that did not fit their tables. A file of SQLCipher 4 still has them; a copy of an older one has sound
        /// ones.
        public let damagedIndexes: [DamagedIndex]
        /// How long it took.
        public let duration: Duration
        /// Notices that are not failures.
        public let notices: [String]

        /// Whether the file was a store already, and an earlier adoption of it was completed.
        public var completedEarlierAdoption: Bool { contentHash == nil }
    }

    /// - Throws: ``ToolError`` `noSuchFile`, `notAdoptable`, `alreadyStore`, `otherVersion`, `exists`,
    ///   `contentDiffers`; `StoreError` `wrongKey`, `pageDamaged`, `truncated`, `storeInUse`, `saltMissing`,
    ///   `foreignSidecar`, `unsupportedFilesystem`; the errors of reading and writing; `CancellationError`: the file is then unchanged.
    ///   ``ToolError`` `adoptionInterrupted` and `incomplete` describe the state and the remaining steps.
    public func perform(_ run: ToolRun) throws -> Report {
        let start = ContinuousClock.now
        let subject = try subject()
        let place = TargetPlace(path: subject.target.path, run: run)
        // A file that cannot be adopted gets no lock file.
        let result = try place.withOpeningLock(likeFile: subject.target.path) { try replace(subject, place, run) }
        let store = try complete(result, subject.key, run)
        defer { try? store.close() }
        for notice in store.notices { run.notice(notice) }
        DoubleQuotedStrings.report(store, run)
        try convert(store, subject.key, run)
        return Report(
            path: path, storeID: store.storeID, contentHash: result?.hash, original: result?.original,
            leftOut: result?.leftOut ?? [], damagedIndexes: result?.damagedIndexes ?? [], duration: .now - start,
            notices: run.notices)
    }

    /// Checks the file, the key and the users of the file, and changes nothing. An adoption also reads every page.
    ///
    /// - Returns: Whether a store has replaced the file already, so that ``StoreTool/run(isCancelled:progress:onNotice:)``
    ///   would complete an earlier adoption.
    /// - Throws: As ``perform(_:)`` before it changes the file.
    public func rehearse() throws -> Bool {
        let subject = try subject()
        guard case .standard = subject.kind else { return true }
        try AdoptedFile(subject.target.path).requireUnused()
        return false
    }

    /// A file that may be adopted.
    private struct Subject {
        let target: AdoptionTarget
        let kind: AdoptionTarget.Kind
        /// It opens the file.
        let key: UnlockedKey
        let found: CipherProbe.Found?
    }

    private func subject() throws -> Subject {
        let target = AdoptionTarget(path)
        let kind = try Self.examine(target)
        if case .standard = kind { try target.requireFreeBackup(version: sqlCipherVersion) }
        try OtherUserLink.refuse(path)
        let key = try key.unlocked()
        return Subject(target: target, kind: kind, key: key, found: try prove(key, kind, target))
    }

    /// Puts the store in the place of the file; the caller holds the lock of openings.
    ///
    /// - Returns: nil where an earlier adoption has done so.
    private func replace(_ subject: Subject, _ place: TargetPlace, _ run: ToolRun) throws -> FileAdoption.Result? {
        let target = subject.target
        guard try Self.examine(target) == subject.kind else {
            throw AdoptedFile.inUse(target.path, "It changed a moment ago.")
        }
        try place.removeAbandoned(.adopting, whose: "a killed adoption had left")
        try run.check()
        guard case .standard(let salt) = subject.kind else { return nil }
        return try FileAdoption(
            target: target, salt: salt, key: subject.key, found: subject.found, version: sqlCipherVersion,
            program: configuration, run: run
        ).adopt()
    }

    /// A store beside the folder of a killed adoption lacks the last steps: the line in the key log, and the keyslots.
    private static func examine(_ target: AdoptionTarget) throws -> AdoptionTarget.Kind {
        do {
            return try target.examine()
        } catch let error as ToolError where error.code == .alreadyStore {
            guard try !StagingDirectory.abandoned(for: target.path, .adopting).isEmpty else { throw error }
            return .adopted
        }
    }

    private func prove(
        _ key: UnlockedKey, _ kind: AdoptionTarget.Kind, _ target: AdoptionTarget
    ) throws -> CipherProbe.Found? {
        guard case .standard(let salt) = kind else { return nil }
        let probe = try CipherProbe(target.path, salt: salt, key: key)
        do {
            return try probe.prove(path, version: sqlCipherVersion)
        } catch let error as StoreError where error.code == .wrongKey && !probe.isWholeBlocks {
            throw target.refused(
                "Its length is that of no database, and the key does not open its first page.",
                "Check the path and the key; the file was left as it is.")
        }
    }

    /// Opens the store that has replaced the file. The opening sets WAL mode, creates -wal and -shm, which stay, and
    /// completes any remaining step of the adoption.
    ///
    /// - Throws: ``ToolError`` that says that the file is converted, whatever failed.
    private func complete(_ result: FileAdoption.Result?, _ key: UnlockedKey, _ run: ToolRun) throws -> SharedStore {
        // Perhaps only the second copy has failed.
        let isReady = result?.isReady == true
        do {
            let store = try SharedStore.open(
                at: path, unlockedBy: key.source, configuration: StoreOpening.configuration(of: configuration))
            if let failure = result?.postponed {
                // A directory whose fsync failed may still contain the former name after a power failure.
                run.notice("this failed once and was repeated: \(ToolError.explanation(of: failure))")
                try Files.synchronize(directory: Files.directory(of: StorePaths(path).database))
            }
            // The opening that completes an interrupted one has logged a creation; the key is older than that.
            StoreOpening.logAdoption(path, run)
            return store
        } catch {
            // When an earlier adoption is completed, a refused key is the caller's error.
            if result == nil, Self.isRefusal(error) { throw error }
            if isReady { StoreOpening.logAdoption(path, run) }
            let state = SidecarFiles(databasePath: StorePaths(path).database).read().newestClaimed?.state
            let again =
                isReady || state == .ready
                ? "The store is complete; the next opening for writing does what is left."
                : "Free space or repair the disk, then run the same command again, which completes the adoption."
            throw ToolError(
                .adoptionInterrupted,
                what: "The adoption of \"\(path)\" was interrupted after the store had replaced the file.",
                why: ToolError.explanation(of: error),
                remedy:
                    "The file is converted, with all its rows: its key opens it as a store, and no longer as a standard "
                    + "SQLCipher file. \(again)",
                cause: error)
        }
    }

    /// Whether an error says that the key or the permissions of the caller do not open the store.
    private static func isRefusal(_ error: any Error) -> Bool {
        switch error {
        case let error as StoreError:
            [.invalidKey, .wrongKey, .keyMissing, .walMissing, .backupReadOnly].contains(error.code)
        case let error as DatabaseError:
            [.SQLITE_AUTH, .SQLITE_READONLY, .SQLITE_PERM].contains(error.resultCode)
        case let error as SystemError: error.isPermission && !error.isNotFound
        default: false
        }
    }

    /// Adds keyslots to the store where that was requested.
    private func convert(_ store: SharedStore, _ key: UnlockedKey, _ run: ToolRun) throws {
        guard scheme == .slots, try store.keys.summary().scheme == .direct else { return }
        do {
            try JobControlSuspension.withoutStopping { try store.keys.convertToSlots(key.source) }
        } catch {
            throw ToolError(
                .incomplete, what: "\"\(path)\" was adopted as a direct store, and did not get keyslots.",
                why: ToolError.explanation(of: error),
                remedy:
                    "The store is complete and opens with its key. Give it slots with `cipherctl key convert --to slots`.",
                cause: error)
        }
        run.notice(StoreStatus.Report.formerPassphrase)
    }
}
