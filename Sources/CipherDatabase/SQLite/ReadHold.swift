/// Keeps the transaction of a statement that reads outside of transactions open beyond its last step (``PageReads/hold()``).
struct ReadHold {
    /// Whether the statement only reads rows.
    let isPossible: Bool
    private(set) var isActive = false

    init(isPossible: Bool) { self.isPossible = isPossible }

    /// Begins with the run of the statement, if pages are authenticated and no transaction is open.
    mutating func begin(_ reads: PageReads, _ handle: ConnectionHandle) {
        guard reads.isOn, handle.isInAutocommit else { return }
        isActive = true
        reads.hold()
    }

    mutating func end(_ reads: PageReads) {
        isActive = false
        reads.release()
    }
}
