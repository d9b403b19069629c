// How a connection calls its features. Each function is called only where a feature has asked for the moment.

extension Database {
    /// Adds the features that each connection has.
    func addOwnFeatures() {
        OwnNames.add(to: self)
        HiddenTables.add(to: self)
        FullTextUpkeep.add(to: self)
        HistoryFeature.add(to: self)
    }

    /// Called before a statement for which one of its features wants to be called.
    func callFeatures(_ moments: FeatureMoments, before statement: Statement) throws {
        for callee in features.callees {
            let (feature, wanted) = (callee.feature, callee.moments.intersection(moments))
            if !wanted.isDisjoint(with: [.willRun, .watch]) { try feature.willRun(statement, on: self) }
            if wanted.contains(.willChangeSchema) { try feature.willChangeSchema(statement, on: self) }
            if wanted.contains(.willVacuum) { try feature.willVacuum(on: self) }
        }
    }

    func callFeatures(didChangeSchema effects: StatementEffects, isForeign: Bool) {
        for callee in features.callees where callee.moments.contains(.didChangeSchema) {
            callee.feature.didChangeSchema(effects, isForeign: isForeign, on: self)
        }
    }

    func callFeaturesAfterRun() throws {
        for callee in features.callees where callee.moments.contains(.didRun) { try callee.feature.didRun(on: self) }
    }

    func callFeatures(didFail statement: Statement) {
        for callee in features.callees where callee.moments.contains(.didFail) {
            callee.feature.didFail(statement, on: self)
        }
    }

    func callFeatures(transactionDidEnd isCommit: Bool) {
        let moment: FeatureMoments = isCommit ? .didCommit : .didRollBack
        for callee in features.callees where callee.moments.contains(moment) {
            callee.feature.transactionDidEnd(isCommit: isCommit, on: self)
        }
    }

    func callFeaturesBeforeClose() {
        for callee in features.callees where callee.moments.contains(.close) { callee.feature.willClose(self) }
    }

    /// Changes the moments of transactions at which a feature is called, with SQLite's hooks that these need.
    package func want<State: ConnectionFeature>(_ moments: FeatureMoments, for key: FeatureKey<State>) {
        features.want(moments, for: key)
        if !moments.isDisjoint(with: .transactionEnd) { updateTransactionHooks() }
    }

    /// Asks the features whether they can make a statement compile that does not.
    ///
    /// SQLite also compiles statements again in the middle of a step, inside of a bracketed call. So what runs here is no
    /// access of its own.
    /// - Parameter code: The code that compiling has returned.
    /// - Returns: Whether the statement is to be compiled again; and the message of SQLite if a feature was asked, whose
    ///   statements replace it.
    func removeObstacle(after code: ResultCode) -> (isRemoved: Bool, message: String?) {
        guard code == .SQLITE_ERROR, features.moments.contains(.didNotCompile) else { return (false, nil) }
        let message = handle.lastMessage
        let isRemoved = features.callees.contains { callee in
            callee.moments.contains(.didNotCompile) && callee.feature.didNotCompile(because: message, on: self)
        }
        return (isRemoved, message)
    }

    /// Runs a statement outside of every access, and returns the first column of its rows: for
    /// ``ConnectionFeature/didNotCompile(because:on:)``.
    package func runWithoutAccess(_ sql: String) -> [String] {
        hooks.isCompiling = true
        let (code, compiled, _) = handle.prepare(sql, persistent: false)
        hooks.isCompiling = false
        guard code == .SQLITE_OK, let compiled else { return [] }
        let statement = StatementHandle(compiled)
        defer { statement.finalize() }
        var values: [String] = []
        while statement.step() == ResultCode.SQLITE_ROW.rawValue {
            if let value = statement.stringOrNil(at: 0) { values.append(value) }
        }
        return values
    }

    /// Clears the cache of the schema after ``runWithoutAccess(_:)`` has changed it.
    package func forgetSchema() { schemaCache.clear() }
}
