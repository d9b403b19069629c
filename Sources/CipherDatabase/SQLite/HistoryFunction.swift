import CSQLCipher

extension ConnectionHandle {
    /// Replaces the built-in function that the triggers of the history call, so that it returns the stamp of the
    /// transaction, and says whether they pause. All other calls are passed on.
    func addHistoryFunction(_ hooks: ConnectionHooks) -> ResultCode {
        ResultCode(
            rawValue: sqlite3_create_function_v2(
                pointer, "sqlite_compileoption_get", 1, SQLITE_UTF8 | SQLITE_INNOCUOUS, context(of: hooks),
                compileOptionOrStamp, nil, nil, nil))
    }

    /// Whether a table is one of the library's own, whose changes nobody observes.
    static func isInternal(_ table: UnsafePointer<CChar>) -> Bool { sqlite3_strnicmp(table, "cipherstore_", 12) == 0 }
}

private func compileOptionOrStamp(context: OpaquePointer?, _: CInt, values: UnsafeMutablePointer<OpaquePointer?>?) {
    guard let context, let value = values?[0] else { return }
    let argument = sqlite3_value_int64(value)
    let hooks = hooks(at: sqlite3_user_data(context))
    if argument == HistoryTriggers.pauseArgument, let hooks {
        // Without a value the result is NULL.
        if hooks.history.isPaused { sqlite3_result_int(context, 1) }
        return
    }
    guard argument == HistoryTriggers.stampArgument, let hooks else {
        let name = sqlite3_compileoption_get(CInt(truncatingIfNeeded: argument))
        return sqlite3_result_text(context, name, -1, nil)
    }
    hooks.history.rows &+= 1
    if hooks.history.stamp != 0 { return sqlite3_result_int64(context, hooks.history.stamp) }
    do {
        hooks.history.stamp = try hooks.history.makeStamp?() ?? 0
    } catch {
        return FunctionContext(pointer: context).setError(error)
    }
    if hooks.history.stamp != 0 { sqlite3_result_int64(context, hooks.history.stamp) }
}
