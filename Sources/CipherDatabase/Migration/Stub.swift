public struct DatabaseMigrator: Sendable {
    public init() {}
    public func hasBeenSuperseded(_ db: Database) throws -> Bool { false }
    public func hasCompletedMigrations(_ db: Database) throws -> Bool { true }
    public func migrate(_ w: any DatabaseWriter) throws {}
}
