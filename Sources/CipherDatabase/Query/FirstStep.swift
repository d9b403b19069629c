extension Statement {
    /// Takes the first step. If the schema has changed, SQLite compiles the statement again.
    @inline(__always)
    func firstStep() -> CInt {
        let code = handle.step()
        return database.pageReads.judge(code == ResultCode.SQLITE_ERROR.rawValue ? stepAgain(code) : code)
    }

    /// Takes a step that is not the first one.
    @inlinable
    @inline(__always)
    func nextStep() -> CInt { database.pageReads.judge(handle.step()) }

    /// Takes the first step once more, where it has failed because of something that a feature could remove.
    ///
    /// - Returns: The code of the last step.
    @usableFromInline
    func stepAgain(_ code: CInt) -> CInt {
        guard database.removeObstacle(after: ResultCode(rawValue: code)) else { return code }
        _ = handle.reset()
        return handle.step()
    }
}
