import CipherDatabase
import StorePlatform

extension SharedStore {
    public func write<T>(_ updates: (Database) throws -> T) throws -> T {
        try access(isWrite: true) { try $0.write(updates) }
    }

    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await access(isWrite: true) { try await $0.write(updates) }
    }

    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        switch entry {
        case .failure(let reason): return try DatabasePool.refuse(because: reason, configuration, updates)
        case .success(let access):
            defer { connections.leave(access) }
            return try access.pool.writeWithoutTransaction(updates)
        }
    }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await access { try await $0.writeWithoutTransaction(updates) }
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        switch entry {
        case .failure(let reason): return try DatabasePool.refuse(because: reason, configuration, updates)
        case .success(let access):
            defer { connections.leave(access) }
            return try access.pool.unsafeReentrantWrite(updates)
        }
    }

    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try access { try $0.barrierWriteWithoutTransaction(updates) }
    }

    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await access { try await $0.barrierWriteWithoutTransaction(updates) }
    }

    public func asyncBarrierWriteWithoutTransaction(
        _ updates: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        submit(updates) { $0.asyncBarrierWriteWithoutTransaction($1) }
    }

    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        connections.submit { [connections] outcome in
            switch outcome {
            case .failure(let error):
                DatabasePool.refuse(because: error.ofClosedConnection, connections.configuration, updates)
            case .success(let access):
                access.pool.asyncWriteWithoutTransaction { db in
                    defer { connections.leave(access, isOnQueue: true) }
                    updates(db)
                }
            }
        }
    }

    /// For an access that throws only what its closure throws: without a connection the closure still runs, and its
    /// statements throw the reason.
    private var entry: Result<StoreAccess, any Error> {
        Result { try connections.enter() }.mapError { $0.ofClosedConnection }
    }
}

extension Error {
    /// The error that a statement throws for this error of a store: `SQLITE_MISUSE` for a closed one, as everywhere.
    fileprivate var ofClosedConnection: any Error {
        (self as? StoreError)?.code == .storeClosed ? DatabaseError.connectionIsClosed() : self
    }
}
