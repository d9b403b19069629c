import CipherDatabase
import CipherStore
import Foundation
import KeyCustody
import PageFormat
import RotationCore
import StoreCrypto
import StorePlatform
import StoreSharing

/// Examines a store before its rotation.
struct RotationPreflight {
    private let store: SharedStore
    private let options: KeyRotation.Options
    private let paths: StorePaths
    private let checksMode: Bool
    private let isCancelled: @Sendable () -> Bool

    /// - Parameter checksMode: Whether the mode must fit the store. False where the keys of the next epoch exist
    ///   already.
    init(
        _ store: SharedStore, _ options: KeyRotation.Options, checksMode: Bool = true,
        isCancelled: @escaping @Sendable () -> Bool
    ) {
        self.store = store
        self.options = options
        self.checksMode = checksMode
        self.isCancelled = isCancelled
        paths = store.paths
    }

    /// Makes the plan and throws an error for its first obstacle.
    ///
    /// - Returns: What the program should know of the content, as sentences.
    func require(_ reporter: ProgressReporter) throws -> [String] {
        reporter.begin(.preflight)
        if case .foreign(let why) = try RotationLeftover(at: paths.rotationCopy) {
            throw StoreError.copyInTheWay(paths.rotationCopy, why)
        }
        let plan = try plan(measures: false)
        let directory = Files.directory(of: paths.database)
        if plan.freeBytes < plan.neededBytes {
            throw Files.noSpace(at: directory, freeBytes: plan.freeBytes, neededBytes: plan.neededBytes)
        }
        if !Files.canWrite(directory: directory) { throw SystemError.permissionDenied("access", directory) }
        if let page = plan.damagedPage { throw StoreError.damagedPage(paths.database, page) }
        try FileOwnership.requireKept(paths.database, what: "\"\(paths.database)\" was not rotated.")
        let kept = try keptWALs()
        if options.backupFolder == nil { try kept.require() }
        guard let obstacle = plan.obstacles.first else {
            return [contentFinding(plan), missingParts(plan), kept.warning].compactMap(\.self)
                .map { "\($0.what) \($0.remedy)" }
        }
        throw StoreError(
            .settingsConflict, what: "\"\(paths.database)\" was not rotated.", why: obstacle.what,
            remedy: obstacle.remedy)
    }

    private static let damageRemedy = "Restore the store from a backup, or save what can be read."

    /// The warning for findings of `integrity_check` in a store whose pages are authentic.
    private func contentFinding(_ plan: RotationPlan) -> RotationPlan.Finding? {
        guard plan.damagedPage == nil, let first = plan.damage?.first else { return nil }
        return RotationPlan.Finding(
            what: "integrity_check found \"\(first)\" in \"\(paths.database)\", and every page is authentic.",
            remedy:
                "The rotation changes no content. If a program replaces a function or collation of SQLite, as lower or "
                + "NOCASE, only that program can check its indexes. Otherwise run `cipherctl verify`.")
    }

    /// - Parameter measures: Whether the speed is measured, which takes a moment.
    func plan(measures: Bool = true) throws -> RotationPlan {
        let (keys, sidecar) = try store.requireRotationKeys()
        try store.requireFilesInPlace()
        try LiveFiles.descriptor(of: paths.database).requireContent()
        let directory = Files.directory(of: paths.database)
        let free = try Files.freeBytes(at: directory)
        let bytes = try databaseBytes(sidecar)
        let filesystem = try FilesystemKind.of(paths.database)
        let (speed, badPage) = measures ? try sampledSpeed(keys, sidecar) : (0, nil)
        let log = Result { try KeyLog(databasePath: paths.database).verify() }
        let usable = max(1, min(speed, options.throttleBytesPerSecond ?? .max))
        let seconds = Double(bytes) / Double(usable) * (1 + RotationLimits.verificationShare)
        var plan = RotationPlan(
            epoch: sidecar.epoch, hasSlots: sidecar.slotted != nil, pages: bytes / sidecar.settings.pageBytes,
            databaseBytes: bytes, walBytes: try Files.byteCount(paths.wal) ?? 0,
            walLimitBytes: options.walLimitBytes ?? max(RotationLimits.smallestWALLimitBytes, (free - bytes) / 2),
            freeBytes: free, sampleBytesPerSecond: speed, workers: options.workerCount,
            expectedDuration: measures ? .milliseconds(Int64(seconds * 1000)) : .zero,
            holders: Array(try StoreHolders(of: paths.database)), filesystem: filesystem.name,
            library: "SQLCipher \(SQLiteLibrary.cipherVersion ?? "?"), SQLite \(SQLiteLibrary.sqliteVersion)",
            lastBackup: (try? log.get())?.lastTime(of: .backupVerified),
            hasRecoverySlot: sidecar.slotted == nil ? nil : sidecar.slots.contains { $0.kind == .recovery },
            damage: nil)
        if options.checksIntegrity { try checkIntegrity(keys, sidecar, &plan) }
        if measures, checksMode { try judgeKeys(keys, &plan) }
        judge(&plan, filesystem)
        try judgeKeptWALs(&plan)
        if case .failure(let error) = log {
            plan.warnings.append(
                RotationPlan.Finding(
                    what: "The key log cannot be read: \(error).",
                    remedy: "Move away what has that name. The rotation does not depend on it."))
        }
        // An error is ignored: a folder that cannot be written is an obstacle already.
        if let obstacle = (try? FileOwnership.obstacle(to: paths.database)) ?? nil {
            plan.obstacles.append(RotationPlan.Finding(what: obstacle.why, remedy: obstacle.remedy))
        }
        // The rotation itself first waits for a program that holds the write lock, which may close its connection.
        if measures, let stranger = OtherConnections(paths).openForWriting() {
            plan.obstacles.append(RotationPlan.Finding(what: stranger.why, remedy: stranger.remedy))
        }
        if let badPage = badPage ?? plan.damagedPage {
            plan.obstacles.append(
                RotationPlan.Finding(
                    what: "Page \(badPage) fails its authentication.", remedy: Self.damageRemedy))
        }
        return plan
    }

    // MARK: Examination

    /// A copy of a damaged WAL needs the present key, or a backup that has it.
    private func judgeKeptWALs(_ plan: inout RotationPlan) throws {
        let kept = try keptWALs()
        if options.backupFolder != nil || options.isBackupUndecided {
            plan.warnings += [kept.warning].compactMap(\.self)
        } else {
            plan.obstacles += [kept.obstacle].compactMap(\.self)
        }
    }

    private func keptWALs() throws -> KeptWALs {
        let (keys, sidecar) = try store.requireRotationKeys()
        return try KeptWALs(paths, keys, sidecar)
    }

    /// Runs `integrity_check` for the plan.
    ///
    /// Its findings are no obstacle where every page is authentic: the copy needs no SQL, and changes no content. A
    /// program that replaces a function or collation of SQLite causes findings in a sound store. SQL that only the
    /// program can evaluate prevents the check.
    private func checkIntegrity(_ keys: SidecarKeys, _ sidecar: Sidecar, _ plan: inout RotationPlan) throws {
        let refusal: DatabaseError?
        do {
            plan.damage = try IntegrityCheck.run(on: store, isCancelled: isCancelled)
            if plan.damage == [] { return }
            refusal = nil
        } catch let error as DatabaseError {
            refusal = error
        }
        // SQLCipher passes zeros to SQLite for a page that fails its authentication, and an error for the next page
        // that is read. So neither a finding nor the error names the damaged page. One that has been filled with zeros is
        // damaged too: the check has found something.
        do {
            plan.damagedPage = try sampledSpeed(keys, sidecar, bytes: .max, acceptsZeroPages: false).badPage
        } catch let error where !(error is CancellationError) && refusal != nil {
            throw refusal ?? error
        }
        if let page = plan.damagedPage { plan.damage = plan.damage ?? ["Page \(page): it fails its authentication"] }
        guard let refusal, plan.damagedPage == nil else { return }
        switch refusal.resultCode.primaryResultCode {
        case .SQLITE_CORRUPT: plan.damage = [refusal.message ?? refusal.description]
        case .SQLITE_ERROR: try noteMissingParts(&plan, refusal)
        default: throw refusal
        }
    }

    private func noteMissingParts(_ plan: inout RotationPlan, _ refusal: DatabaseError) throws {
        let missing = try store.read { try MissingParts(of: $0) }
        guard !missing.isEmpty else { throw refusal }
        plan.notChecked = missing.names
    }

    /// The warning where `integrity_check` was not run, because it needs parts of the program that uses the store.
    private func missingParts(_ plan: RotationPlan) -> RotationPlan.Finding? {
        guard !plan.notChecked.isEmpty else { return nil }
        return RotationPlan.Finding(
            what: "integrity_check was not run: this program lacks \(plan.notChecked.joined(separator: ", ")).",
            remedy: "Let the program that has them run it. The rotation itself authenticates every page.")
    }

    /// Finds what the keys of the next epoch would be refused for.
    private func judgeKeys(_ keys: SidecarKeys, _ plan: inout RotationPlan) throws {
        if Self.contradicts(options.mode, plan.hasSlots) { return }
        do {
            let journal = RotationJournal(databasePath: paths.database, keys: keys)
            guard try journal.rotation() == nil else { return }
            _ = try options.proposal(for: store, journal)
        } catch let error as StoreError
            where [.modeConflict, .invalidKey, .wrongKey, .lastSlot].contains(error.code)
        {
            plan.obstacles.append(RotationPlan.Finding(what: "\(error.what) \(error.why)", remedy: error.remedy))
        }
    }

    /// Whether the mode does not fit the scheme of the store, which is an obstacle of its own.
    private static func contradicts(_ mode: KeyRotation.Mode, _ hasSlots: Bool) -> Bool {
        switch mode {
        case .newKey: hasSlots
        case .newDataKey, .compromised: !hasSlots
        }
    }

    private func databaseBytes(_ sidecar: Sidecar) throws -> Int {
        let pages = try store.read { try Int.fetchOne($0, sql: "PRAGMA page_count") } ?? 0
        return pages * sidecar.settings.pageBytes
    }

    /// Re-encrypts sample pages in memory, to a key that is discarded.
    ///
    /// - Parameter acceptsZeroPages: Whether a page of zeros is no damage: in an auto-vacuum database SQLCipher reads one as
    ///   a page after the end of the file.
    /// - Returns: Bytes per second, and the damaged page at which it ended, if any.
    private func sampledSpeed(
        _ keys: SidecarKeys, _ sidecar: Sidecar, bytes: Int = RotationLimits.sampleBytes, acceptsZeroPages: Bool = true
    ) throws -> (Int, badPage: UInt32?) {
        guard let dataKey = try keys.dataKey(of: sidecar) else { throw StoreError.noKeys(paths.database) }
        let trial = try DataKey(SecretBytes.random(count: CipherSettings.keyBytes))
        let reencryption = try PageReencryption(
            from: dataKey.pageKeys(salt: sidecar.salt, settings: sidecar.settings),
            to: trial.pageKeys(salt: Salt.random(), settings: sidecar.settings))
        let view = try store.makePageSnapshot(
            LockWaitWatch(isCancelled: isCancelled, onLongWait: options.onLongWait))
        defer { try? view.close() }
        let pageBytes = sidecar.settings.pageBytes
        let pages = min(view.databasePages, UInt32(clamping: max(1, bytes / pageBytes)))
        var flow = PageReencryption.Flow()
        flow.workers = options.workerCount
        flow.isCancelled = isCancelled
        flow.rereads = RotationLimits.rereads
        flow.pause = { Pause.sleep(for: RotationLimits.rereadPause) }
        let begin = ContinuousClock.now
        do {
            let isDone = try reencryption.copy(
                .all(pages), acceptsZeroPages: acceptsZeroPages, flow: flow,
                read: { places, buffer in
                    try view.read(firstPage: UInt32(places.lowerBound + 1), count: places.count, into: buffer)
                },
                write: { _, _ in })
            if !isDone { throw CancellationError() }
        } catch PageReencryptionError.damaged(let page) {
            return (0, page)
        }
        let seconds = max((ContinuousClock.now - begin) / .seconds(1), 1e-6)
        return (Int(Double(Int(pages) * pageBytes) / seconds), nil)
    }

    // MARK: Obstacles and warnings

    private func judge(_ plan: inout RotationPlan, _ filesystem: FilesystemKind) {
        func obstacle(_ what: String, _ remedy: String) {
            plan.obstacles.append(RotationPlan.Finding(what: what, remedy: remedy))
        }
        func warning(_ what: String, _ remedy: String) {
            plan.warnings.append(RotationPlan.Finding(what: what, remedy: remedy))
        }
        if case .foreign(let why) = try? RotationLeftover(at: paths.rotationCopy) {
            obstacle(
                "\"\(paths.rotationCopy)\" has the name of the copy. \(why)", "Find out what it is, and move it away.")
        }
        plan.warnings += [missingParts(plan), contentFinding(plan)].compactMap(\.self)
        if plan.freeBytes < plan.neededBytes {
            obstacle(
                "\(plan.freeBytes) bytes are free; the copy and the WAL need \(plan.neededBytes).", "Free space first.")
        }
        let directory = Files.directory(of: paths.database)
        if !Files.canWrite(directory: directory) {
            obstacle(
                "This user may not write the directory \"\(directory)\", in which the copy is made.",
                "Run it as the owner of the store.")
        }
        if !filesystem.isSafeForSharedWAL {
            warning(
                "The store is on \(filesystem.name), on which locks are not reliable.", "Move it to a local disk.")
        }
        switch (checksMode ? options.mode : nil, plan.hasSlots) {
        case (.newKey?, true):
            obstacle("The store has keyslots, so its data key is generated and cannot be given.", "Give no new key.")
        case (.newDataKey?, false), (.compromised?, false):
            obstacle("The store is direct: its key is its passphrase.", "Give the new key, or give it keyslots first.")
        default: break
        }
        for holder in plan.holders {
            let unasked = holder.label == nil && holder.uses.contains(.open)
            if holder.state == .stopped {
                warning("\(holder) is stopped and will not pause.", "Resume it, or end it.")
            } else if unasked {
                warning("\(holder) has the database open and cannot be asked to pause.", "Close it there.")
            }
        }
        if plan.hasRecoverySlot == false {
            warning("No keyslot is a recovery key.", "Add one with `cipherctl key recovery`, and print it.")
        }
        if plan.lastBackup == nil {
            warning("The key log records no verified backup.", "Make one first, or let the rotation make one.")
        }
    }
}
