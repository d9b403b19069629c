import StorePlatform

// The notices of commits between the holders of a store: a watcher is woken after each commit of another holder.
//
// A notice says only that there may be a commit. A process that is killed between its commit and its notices wakes no
// watcher, and neither does a program without this library. So a watcher also polls without a notice, but seldom.

extension HolderRow {
    // MARK: The writer

    /// Wakes the watchers of the other rows; for the holder that has just committed. One load where nobody watches.
    @inline(__always)
    package func noticeCommit() { if table.mayHaveWatchers { noticeWatchers() } }

    private func noticeWatchers() {
        table.forEachWatcher { if $0 != number { table.notify(watcher: $0) } }
    }

    // MARK: The watcher

    /// Whether this holder is woken after commits.
    package var isWatching: Bool { table.isWatching(number) }

    /// Begins to watch: from the return on, each commit of another holder is noticed.
    package func beginWatching() {
        whileHeld {
            table.armNotice(of: number)
            table.setWatching(number)
        }
    }

    /// Ends the watch, and wakes the thread that sleeps in ``awaitNotice(for:)``.
    package func endWatching() {
        if isInherited { return }
        whileHeld { table.clearWatching(number) }
        wakeWatcher()
    }

    /// Makes the next commit be noticed again; to be called before each poll for commits.
    package func armNotice() { whileHeld { table.armNotice(of: number) } }

    /// Whether a commit was noticed since ``armNotice()``.
    package var isNoticed: Bool { table.isNoticed(number) }

    /// Sleeps until a commit is noticed, ``wakeWatcher()`` is called, or the time has passed. It may return early.
    ///
    /// - Returns: False where the system has no wait on a memory word; it returns at once then.
    package func awaitNotice(for timeout: Duration) -> Bool {
        table.awaitNotice(for: number, nanoseconds: timeout.wholeNanoseconds)
    }

    /// Wakes the thread that sleeps in ``awaitNotice(for:)``. After the release of the row it may wake its next
    /// holder, who then polls without need.
    package func wakeWatcher() { table.notify(watcher: number) }
}

/// The words of the table of holders that say who watches commits, and whether they were noticed.
extension SharedTable {
    /// Whether any holder may watch commits.
    @inline(__always)
    var mayHaveWatchers: Bool { words.load64(Header.watchers) != 0 }

    func isWatching(_ row: Int) -> Bool { words.load64(watchingWord(of: row)) & bit(of: row) != 0 }

    func setWatching(_ row: Int) {
        words.setBits64(watchingWord(of: row), bit(of: row))
        words.setBits64(Header.watchers, 1 << UInt64(row / 64))
    }

    func clearWatching(_ row: Int) { words.clearBits64(watchingWord(of: row), bit(of: row)) }

    private func watchingWord(of row: Int) -> Int { Header.watching + row / 64 * 8 }

    /// Calls `body` for each row whose holder watches commits.
    func forEachWatcher(_ body: (Int) -> Void) {
        var places = words.load64(Header.watchers)
        while places != 0 {
            let index = places.trailingZeroBitCount
            places &= places - 1
            // Memory that others write: a bit may be out of range.
            guard index < Header.watchingWords else { return }
            var bits = words.load64(Header.watching + index * 8)
            while bits != 0 {
                body(index * 64 + bits.trailingZeroBitCount)
                bits &= bits - 1
            }
        }
    }

    /// Makes the next notice wake the watcher of a row.
    func armNotice(of row: Int) { words.store32(TableLayout.notice(row), NoticeWord.armed) }

    /// Notifies the watcher of a row of a commit, and wakes it unless it was woken before and has not polled since.
    func notify(watcher row: Int) {
        let offset = TableLayout.notice(row)
        // Not a load: what was committed comes before it for every processor.
        switch words.add32(offset, 0) {
        case NoticeWord.woken: return
        case NoticeWord.armed: _ = words.replace32(offset, NoticeWord.armed, with: NoticeWord.noticed)
        default: break
        }
        words.wake(offset)
        _ = words.replace32(offset, NoticeWord.noticed, with: NoticeWord.woken)
    }

    func isNoticed(_ row: Int) -> Bool { words.load32(TableLayout.notice(row)) != NoticeWord.armed }

    /// Sleeps until a notice for the row, or until the time has passed or a signal has come.
    ///
    /// - Returns: False where the system has no wait on a memory word.
    func awaitNotice(for row: Int, nanoseconds: UInt64) -> Bool {
        words.sleep(on: TableLayout.notice(row), while: NoticeWord.armed, forNanoseconds: nanoseconds)
    }
}
