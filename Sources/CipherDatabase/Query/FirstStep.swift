extension Statement {
    /// Takes the first step. If the schema has changed, SQLite compiles the statement again.
    @inline(__always)
    func firstStep() -> CInt {
        let code = handle.step()
        return code == ResultCode.SQLITE_ERROR.rawValue ? stepAgain(code) : code
    }

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
