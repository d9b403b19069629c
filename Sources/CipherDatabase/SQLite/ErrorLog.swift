import CSQLCipher
import Synchronization

extension Database {
    /// The function that is called with each message of SQLite's error log: the code, and the message.
    public typealias LogErrorFunction = @Sendable (_ resultCode: ResultCode, _ message: String) -> Void

    /// Receives SQLite's error log, that of all connections of the process; nil, as at first, drops it.
    ///
    /// Set it before the first database is opened: SQLite before 3.42 accepts no log function later. It is called on
    /// any thread, inside of SQLite, and must not use a database. Messages contain SQL text, and so the values in it;
    /// messages that could show a key are hidden.
    /// - SeeAlso: <https://www.sqlite.org/errlog.html>
    public static var logError: LogErrorFunction? {
        get { ErrorLog.receiver.withLock { $0.function } }
        set {
            ErrorLog.receiver.withLock { $0.function = newValue }
            if newValue != nil { ErrorLog.install }
        }
    }
}

extension ConnectionHandle {
    /// Logs each statement that is still alive.
    func logUnfinalizedStatements(_ code: ResultCode) {
        var next = sqlite3_next_stmt(pointer, nil)
        while let statement = next {
            let sql = StatementHandle(statement).sql
            let shown = CipherPragma.mayHoldKey(sql) ? "(hidden: it may show a key)" : sql
            csqlcipher_log(code.rawValue, "unfinalized statement: " + shown)
            next = sqlite3_next_stmt(pointer, statement)
        }
    }
}

/// SQLite's error log, which is one for the process.
private enum ErrorLog {
    // Not the function itself: in generic code each use would put another wrapper around it.
    struct Receiver {
        var function: Database.LogErrorFunction?
    }

    static let receiver = Mutex(Receiver())

    /// Installs the log function, once: from then on only the receiver changes.
    static let install: Void = {
        _ = csqlcipher_config_log { _, code, message in
            guard let message, let receiver = receiver.withLock({ $0.function }) else { return }
            let text = String(cString: message)
            receiver(
                ResultCode(rawValue: code), CipherPragma.mayHoldKey(text) ? "(hidden: it may show a key)" : text)
        }
    }()
}
