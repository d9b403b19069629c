import CipherDatabase

extension SharedStore {
    public func read<T>(_ value: (Database) throws -> T) throws -> T { try access { try $0.read(value) } }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await access { try await $0.read(value) }
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try access { try $0.unsafeRead(value) } }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await access { try await $0.unsafeRead(value) }
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        try access { try $0.unsafeReentrantRead(value) }
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        submit(value) { $0.asyncRead($1) }
    }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        submit(value) { $0.asyncUnsafeRead($1) }
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        submit(value) { $0.spawnConcurrentRead($1) }
    }

    /// Passes an access without a waiting caller to a connection.
    func submit(
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void,
        _ begin: @escaping @Sendable (DatabasePool, @escaping @Sendable (Result<Database, any Error>) -> Void) -> Void
    ) {
        connections.submit { [connections] outcome in
            switch outcome {
            case .failure(let error): value(.failure(error))
            case .success(let access):
                begin(access.pool) { database in
                    defer { connections.leave(access, isOnQueue: true) }
                    value(database)
                }
            }
        }
    }
}
