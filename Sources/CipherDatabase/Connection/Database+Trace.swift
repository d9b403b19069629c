extension Database {
    /// Which events a trace reports.
    public struct TracingOptions: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Statements as they start.
        public static let statement = TracingOptions(rawValue: 1)
        /// Statements when they end, with their duration.
        public static let profile = TracingOptions(rawValue: 2)
    }

    /// A statement that starts, or one that ended.
    public enum TraceEvent: CustomStringConvertible {
        /// A statement as a trace shows it.
        public struct Statement {
            /// The SQL text with `?` for its parameters.
            public let sql: String
            /// The SQL text with the values of its parameters: for debugging only, never for a log file.
            public let expandedSQL: String
            let showsArguments: Bool
        }

        case statement(Statement)
        case profile(statement: Statement, duration: Double)

        /// The SQL text, after the duration in seconds where the event has one. Values of parameters appear only with
        /// ``Configuration/publicStatementArguments``.
        public var description: String {
            switch self {
            case .statement(let statement): statement.text
            case .profile(let statement, let seconds): "\(seconds)s \(statement.text)"
            }
        }

        /// The same with the values of the parameters: for debugging only, never for a log file.
        public var expandedDescription: String {
            switch self {
            case .statement(let statement): statement.expandedSQL
            case .profile(let statement, let seconds): "\(seconds)s \(statement.expandedSQL)"
            }
        }
    }

    /// Reports statements as they run; nil ends the reports.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/trace_v2.html>
    public func trace(options: TracingOptions = .statement, _ trace: ((TraceEvent) -> Void)? = nil) {
        requireAccess()
        if isClosed { return }
        let options = trace == nil ? [] : options
        let showsArguments = configuration.publicStatementArguments
        hooks.willRun = { statement, text in
            let shown =
                text.hasPrefix("--")
                ? TraceEvent.Statement(sql: text, expandedSQL: text, showsArguments: showsArguments)
                : TraceEvent.Statement(StatementHandle(statement), showsArguments: showsArguments)
            trace?(.statement(shown))
        }
        hooks.didRun = { statement, nanoseconds in
            let shown = TraceEvent.Statement(StatementHandle(statement), showsArguments: showsArguments)
            trace?(.profile(statement: shown, duration: Double(nanoseconds) / 1e9))
        }
        handle.installTrace(hooks, statements: options.contains(.statement), profiles: options.contains(.profile))
    }
}

extension Database.TraceEvent.Statement {
    init(_ statement: StatementHandle, showsArguments: Bool) {
        let text = statement.sql
        if CipherPragma.mayHoldKey(text) {
            sql = "PRAGMA (hidden: it may hold a key)"
            expandedSQL = sql
        } else {
            sql = text.trimmingSQL()
            expandedSQL = statement.expandedSQL?.trimmingSQL() ?? sql
        }
        self.showsArguments = showsArguments
    }

    var text: String { showsArguments ? expandedSQL : sql }
}
