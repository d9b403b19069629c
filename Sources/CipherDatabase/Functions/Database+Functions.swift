extension Database {
    // MARK: Functions

    /// Adds a function to this connection. It replaces one of the same name and number of arguments.
    ///
    /// Other connections do not have it: add functions in ``Configuration/prepareDatabase(_:)``. A name longer than 255
    /// bytes, more than 127 arguments, and replacing a function while a statement runs, trap.
    public func add(function: DatabaseFunction) {
        requireAccess()
        if isClosed { return }
        require(function.install(on: handle), "the function \(function.name) cannot be added")
    }

    /// Removes a function from this connection. Statements that call it fail from now on.
    ///
    /// Removing a function while a statement runs traps.
    public func remove(function: DatabaseFunction) {
        requireAccess()
        if isClosed { return }
        require(function.uninstall(from: handle), "the function \(function.name) cannot be removed")
    }

    // MARK: Collations

    /// Adds a collation to this connection. It replaces one of the same name.
    ///
    /// Other connections do not have it: add collations in ``Configuration/prepareDatabase(_:)``. Replacing one while a
    /// statement runs traps.
    public func add(collation: DatabaseCollation) {
        requireAccess()
        if isClosed { return }
        require(collation.install(on: handle), "the collation \(collation.name) cannot be added")
    }

    /// Removes a collation from this connection. Statements that need it fail from now on.
    ///
    /// Removing a collation while a statement runs traps.
    public func remove(collation: DatabaseCollation) {
        requireAccess()
        if isClosed { return }
        require(collation.uninstall(from: handle), "the collation \(collation.name) cannot be removed")
    }

    /// Removes a collation, unless a statement runs: then the connection keeps it.
    package func removeIfIdle(collation: DatabaseCollation) {
        requireAccess()
        if !isClosed { _ = collation.uninstall(from: handle) }
    }

    /// Rebuilds all indexes that use a collation, as is needed when its order has changed.
    /// - SeeAlso: <https://www.sqlite.org/lang_reindex.html>
    public func reindex(collation: DatabaseCollation) throws {
        try reindex(collation: CollationName(rawValue: collation.name))
    }

    /// Rebuilds all indexes that use a collation, as is needed when its order has changed.
    /// - SeeAlso: <https://www.sqlite.org/lang_reindex.html>
    public func reindex(collation: CollationName) throws {
        try execute(sql: "REINDEX \(collation.rawValue.quotedDatabaseIdentifier)")
    }

    /// The name of a collation.
    public struct CollationName: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public init(stringLiteral name: String) { rawValue = name }

        /// The order of the bytes.
        public static let binary = CollationName(rawValue: "BINARY")
        /// As binary, ignoring the case of the letters `A` to `Z`.
        public static let nocase = CollationName(rawValue: "NOCASE")
        /// As binary, ignoring blanks at the end.
        public static let rtrim = CollationName(rawValue: "RTRIM")
    }

    // MARK: Opening

    /// Adds the functions and collations that every connection has.
    func addBuiltInFunctions() throws {
        for function in DatabaseFunction.builtIn { try check(function.install(on: handle)) }
        for collation in DatabaseCollation.builtIn { try check(collation.install(on: handle)) }
    }

    private func require(_ code: ResultCode, _ failure: String) {
        if code != .SQLITE_OK { ProgrammerError.trap("\(failure): \(handle.lastMessage)") }
    }
}
