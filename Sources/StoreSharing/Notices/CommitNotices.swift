import StorePlatform

// The notices of commits between the holders of a store: who watches is woken after each commit of another holder.
//
// A notice says only that there may be something new. A process that is killed between its commit and its notices wakes
// nobody, and programs that do not use this library never do: a watcher also looks without a notice, but seldom.

extension HolderSlot {
    // MARK: The writer

    /// Wakes the watchers of the other slots; for the holder that has just committed. One load where nobody watches.
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

    /// Makes the next commit be noticed again; to be called before each look for commits.
    package func armNotice() { whileHeld { table.armNotice(of: number) } }

    /// Whether a commit was noticed since ``armNotice()``.
    package var isNoticed: Bool { table.isNoticed(number) }

    /// Sleeps until a commit is noticed, ``wakeWatcher()`` is called, or the time has passed. It may return early.
    ///
    /// - Returns: False where the system has no wait on a memory word; it returns at once then.
    package func awaitNotice(for timeout: Duration) -> Bool {
        table.awaitNotice(for: number, nanoseconds: timeout.wholeNanoseconds)
    }

    /// Wakes the thread that sleeps in ``awaitNotice(for:)``. After the release of the slot it may wake its next
    /// holder, who then looks without need.
    package func wakeWatcher() { table.notify(watcher: number) }
}
