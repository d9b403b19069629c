extension Database {
    /// Whether the connection enforces foreign keys now.
    package func enforcesForeignKeys() throws -> Bool { try Bool.fetchOne(self, sql: "PRAGMA foreign_keys") ?? false }

    /// Runs a block while foreign keys are not enforced and the triggers of the main database do not fire, for rows that
    /// are written as they are elsewhere. Outside of transactions only. The functions of the program that are called when
    /// a transaction of the block has ended write as usual.
    package func withForeignKeysAndTriggersSuspended<T>(_ block: () throws -> T) throws -> T {
        let enforced = try enforcesForeignKeys()
        return try withForeignKeysSuspended {
            handle.setTriggers(false)
            features[SuspendedRules.key] = SuspendedRules(foreignKeys: enforced)
            defer {
                features[SuspendedRules.key] = nil
                handle.setTriggers(true)
            }
            return try block()
        }
    }

    /// Runs a block inside ``withForeignKeysAndTriggersSuspended(_:)`` in which triggers fire, and foreign keys act where
    /// `foreignKeys` says so: for writes of the program in the same transaction.
    package func withForeignKeysAndTriggersResumed<T>(foreignKeys: Bool, _ block: () throws -> T) rethrows -> T {
        handle.setForeignKeys(foreignKeys)
        handle.setTriggers(true)
        defer {
            handle.setForeignKeys(false)
            handle.setTriggers(false)
        }
        return try block()
    }

    /// Runs functions of the program after a transaction: inside ``withForeignKeysAndTriggersSuspended(_:)`` too, what
    /// they write is not written as it is elsewhere.
    func withRulesOfProgram(_ functions: () -> Void) {
        guard let rules = features[SuspendedRules.key] else { return functions() }
        features[SuspendedRules.key] = nil
        defer { features[SuspendedRules.key] = rules }
        withForeignKeysAndTriggersResumed(foreignKeys: rules.foreignKeys, functions)
    }

    /// Whether the connection enforces foreign keys outside of ``withForeignKeysAndTriggersSuspended(_:)``.
    package var isConfiguredForForeignKeys: Bool { configuration.foreignKeysEnabled }

    /// Runs a block while foreign keys are not enforced. Outside of transactions only.
    package func withForeignKeysSuspended<T>(_ block: () throws -> T) throws -> T {
        guard try enforcesForeignKeys() else { return try block() }
        handle.setForeignKeys(false)
        // Not by SQL, which fails where an access is interrupted or cancelled.
        defer { handle.setForeignKeys(true) }
        return try block()
    }
}

/// The rules of the program that a block under way suspends (``Database/withForeignKeysAndTriggersSuspended(_:)``).
private final class SuspendedRules {
    static let key = FeatureKey<SuspendedRules>(.suspendedRules)

    /// Whether foreign keys act outside of the block.
    let foreignKeys: Bool

    init(foreignKeys: Bool) { self.foreignKeys = foreignKeys }
}
