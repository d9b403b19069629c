import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import StorePlatform

// The switch: everybody pauses, the rest is carried over, and the copy takes the database's place.
extension RotationRun {
    // MARK: The pause

    func ask(insists: Bool) throws -> RotationState.Event {
        teller.begin(.switching)
        try proveNewKey()
        let isCancelled = isCancelled
        let begin = ContinuousClock.now
        // A connection that has not read yet holds no lock: nothing of what follows would find it.
        let strangers = StoreHolders.strangers(of: paths.database)
        guard strangers.isEmpty else {
            obstacle = .foreignConnection(paths.database, strangers)
            return .foreignHolder
        }
        let first = firstRequest ?? begin
        firstRequest = first
        standstill = try Standstill.begin(
            paths, insists: insists, budget: options.pauseBudget, isCancelled: { isCancelled() })
        guard standstill != nil else {
            // Those who did give way have waited as well.
            report.longestPause = max(report.longestPause, .now - begin)
            obstacle = .notPaused(paths.database, holders { $0.uses.contains(.lease) }, after: .now - first)
            return .withheld(isPatienceOver: isPatienceOver)
        }
        return .done
    }

    var isPatienceOver: Bool { firstRequest.map { .now - $0 >= options.longReads.limit } ?? false }

    /// Lets a secret manager show that it keeps the new key. It may take its time: nobody waits yet.
    private func proveNewKey() throws {
        guard !isNewKeyProved, let source = options.provesNewKey, let keys, case .newKey = options.aim else { return }
        let given = try source.read()
        let key = try given.dataKey(salt: keys.nextSalt, settings: keys.settings)
        guard key.isEqual(to: keys.nextDataKey) else { throw StoreError.newKeyNotProved(paths.database) }
        isNewKeyProved = true
    }

    func carryRest() throws -> RotationState.Event {
        guard let view, let copier, let start = cut, let begin = standstill?.begin else { throw CancellationError() }
        // Before the view is closed: as long as it is open, what follows can still be told.
        if try isConnectedElsewhere() { return .foreignHolder }
        let deadline = begin + options.pauseBudget
        do {
            // So that what others do behind the closing of the view shows in the log.
            if start.frame == 0 { try view.commitFrame(until: deadline) }
            let fits = try view.withWriteLock(until: deadline) {
                let rest = try view.delta(since: start)
                guard .now + copier.pageCost * rest.pages.count <= deadline else { return false }
                try carry(rest, copier, view)
                return true
            }
            CrashPoint.reach(.rotationLastDelta)
            guard fits else { return withheld() }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return withheld()
        }
        try copier.copy.synchronize(pages: pages)
        try view.close()
        self.view = nil
        CrashPoint.reach(.rotationCopySynced)
        return .done
    }

    private func withheld() -> RotationState.Event {
        obstacle = .restless(paths.database)
        return .withheld(isPatienceOver: isPatienceOver)
    }

    /// Whether SQLite's locks show a connection of another process.
    private func isConnectedElsewhere() throws -> Bool {
        var processes: Set<Int32> = []
        for path in [paths.database, paths.sharedMemory] {
            processes.formUnion(try (SystemLocks.posixLocks(on: path) ?? []).map(\.process))
        }
        processes.remove(ProcessInspector.currentProcess)
        guard !processes.isEmpty else { return false }
        nameForeignHolders()
        return true
    }

    private func nameForeignHolders() {
        obstacle = .foreignConnection(paths.database, holders { _ in true })
    }

    /// Who has the store open, others before this process: its own rows are those of one who has paused, mostly.
    private func holders(_ isMeant: (StoreHolder) -> Bool) -> [StoreHolder] {
        let all = ((try? StoreHolders(of: paths.database)).map { Array($0) } ?? []).filter(isMeant)
        let others = all.filter { $0.process != ProcessInspector.currentProcess }
        return others.isEmpty ? all : others
    }

    func prove() throws -> RotationState.Event {
        guard let standstill else { throw CancellationError() }
        guard try standstill.proveNobodyIsConnected() else {
            nameForeignHolders()
            return .foreignHolder
        }
        CrashPoint.reach(.rotationBytesLocked)
        guard try standstill.isInPlace() else { throw StoreError.moved(paths.database) }
        // For the last time: what follows cannot be undone, and everybody may have given way without a wait.
        try requireNotCancelled()
        // Somebody who does not know of leases may have committed between our last look and the lock.
        return try logEndsAtCut() ? .done : withheld()
    }

    /// Whether the log ends where the copy does. Nobody is connected, so its files may be opened and closed by hand.
    private func logEndsAtCut() throws -> Bool {
        // A stock program that comes and goes removes both, as the last one to close.
        guard let cut, Files.exists(paths.sharedMemory) else { return false }
        let head = try FileDescriptor(opening: paths.sharedMemory, .readOnly)
            .read(at: 0, byteCount: WALIndex.headerBytes)
        // With the salts: the log may have been copied, begun anew, and have as many frames again.
        guard let index = head.withUnsafeBytes({ WALIndex($0) }), cut.frame > 0, index.frames == cut.frame,
            index.salts == cut.salts, Files.exists(paths.wal)
        else { return false }
        let start = try FileDescriptor(opening: paths.wal, .readOnly).read(at: 0, byteCount: WALHeader.headerBytes)
        let header = start.withUnsafeBytes { WALHeader($0) }
        return header?.salts == cut.salts
    }

    /// Lets everybody go on with the former key, and waits a little.
    func withdraw(attempt: Int) throws -> RotationState.Event {
        var isLogLost = false
        if view == nil, let former = cut {
            // While nobody else writes: once they do, the log may be begun anew.
            standstill?.admitConnections()
            do {
                view = try makeView(waiting: Limits.pausedBusyWait)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                // Somebody who cannot be asked to pause is writing: nobody else waits for him.
                endStandstill()
                view = try awaitView()
            }
            // Commits in between are in the log now, but nothing keeps them there but the view, and it came behind them.
            // A log without frames tells nothing: who opens the database first makes its index anew, without salts. The cut
            // has one where a stock program came behind our last look for connections, and began a log anew that was
            // copied whole: a reader of such a log does not hinder that.
            isLogLost = view?.cut != former || former.frame == 0
        }
        endStandstill()
        if isLogLost {
            cut = view?.cut
            return .logLost
        }
        let pause = Limits.firstWithdrawal * (1 << min(attempt - 1, 10))
        let end = ContinuousClock.now + min(pause, Limits.longestWithdrawal)
        while ContinuousClock.now < end {
            try requireNotCancelled()
            Pause.sleep(for: min(.milliseconds(20), end - .now))
        }
        return .done
    }

    func endStandstill(wasReplaced: Bool = false) {
        guard let standstill else { return }
        standstill.end(wasReplaced: wasReplaced)
        report.longestPause = max(report.longestPause, standstill.length)
        self.standstill = nil
    }

    // MARK: The exchange

    func announceSwitch() throws -> RotationState.Event {
        do {
            try ledger.announceSwitch(pages: pages)
        } catch let error as UncertainAnnouncement {
            // Nobody can say now which of the two the sidecar tells of: the next opening finds out.
            throw error
        } catch {
            remember(error)
            return .notAnnounced
        }
        CrashPoint.reach(.rotationSwitchingWritten)
        return .done
    }

    /// From here only forward. Whoever opens the store next takes the same steps if this process does not. A second call
    /// goes on where the first one has failed.
    func switchOver() throws {
        if let copier {
            report.pages = Int(pages)
            report.bytes = Int(pages) * copier.pageBytes
            self.copier = nil
            // A descriptor of the database must not be closed once SQLite has it open.
            copier.copy.close()
        }
        if replacement == nil { replacement = try Files.identity(paths.rotationCopy) }
        guard let replacement else { throw StoreError.copyVanished(paths.rotationCopy) }
        if try Files.identity(paths.database) != replacement {
            try replaceLog()
            CrashPoint.reach(.rotationLogEmptied)
            try Files.rename(paths.rotationCopy, to: paths.database)
            CrashPoint.reach(.rotationRenamed)
        }
        try Files.synchronize(directory: Files.directory(of: paths.database))
        CrashPoint.reach(.rotationDirectorySynced)
        do {
            try standstill?.spoilReplaced()
        } catch {
            // That file has no name any more, so nobody can do it later.
            report.notices.append("the first page of the former database could not be written over: \(error)")
        }
        report.notices += try ledger.complete()
        CrashPoint.reach(.rotationCompleted)
    }

    /// After a power cut frames under the old key must not meet the new file: an empty log is durable before it comes.
    ///
    /// The former log is not cut: the system takes the longer for that the longer it is. It loses its name, and its room
    /// is freed when the others go on.
    private func replaceLog() throws {
        guard try Files.byteCount(paths.wal) != nil else { return }
        // The second time it is the empty one.
        if formerLog == nil { formerLog = OpenFile(try FileDescriptor(opening: paths.wal, .readWrite)) }
        try AtomicFile.write([], to: paths.wal, likeFile: paths.wal)
    }

    func letGo() {
        pardonFailure()
        if let keys { onCompletion(keys) }
        endStandstill(wasReplaced: true)
        formerLog?.close()
        formerLog = nil
        CrashPoint.reach(.rotationReleased)
        note(.rotationCompleted(to: report.toEpoch))
    }
}
