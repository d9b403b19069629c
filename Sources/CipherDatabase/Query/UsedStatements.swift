/// The kept statements to which the current access has given values: they are cleared at its end.
///
/// Only these are cleared, so that an access costs no time for the other statements of its connection.
final class UsedStatements {
    // References that are not counted: the caches reuse a statement only while nobody else refers to it. A statement
    // that is released removes itself. Unchecked: used with each statement, by the one thread of the access.
    @exclusivity(unchecked) private var statements: [Unmanaged<Statement>] = []

    /// - Returns: The position of the statement.
    func add(_ statement: Statement) -> Int {
        statements.append(.passUnretained(statement))
        return statements.count - 1
    }

    /// Removes a statement that is being released.
    func remove(at index: Int) {
        let last = statements.removeLast()
        if index == statements.count { return }
        statements[index] = last
        last.takeUnretainedValue().usedIndex = index
    }

    /// Clears all of them, and forgets those that have ended: one that is between rows is cleared after a later access.
    func clear() {
        // One by one, from the last: a value that is released may release a statement, which removes itself.
        var index = statements.count
        while index > 0 {
            index = min(index, statements.count) - 1
            guard index >= 0 else { return }
            let statement = statements[index].takeUnretainedValue()
            guard statement.clear(), statement.usedIndex >= 0 else { continue }
            remove(at: statement.usedIndex)
            statement.usedIndex = -1
        }
    }
}
