import ChangesetSync

#if PostgreSQL
    import PostgreSQLRemote

    /// Servers as remotes.
    enum ServerRemote {
        static func make(_ address: RemoteAddress, _ repository: RepositoryID) throws -> any SyncRemote {
            try PostgreSQLRemote(url: address.text, repository: repository)
        }

        /// Makes the tables on the server.
        static func setUp(_ remote: any SyncRemote) async throws {
            try await (remote as? PostgreSQLRemote)?.setup()
        }

        /// The meaning of a server's error for a command; nil for other errors.
        static func report(_ error: any Error) -> SyncErrorReport? {
            guard let error = error as? PostgreSQLError else { return nil }
            let exitCode: ExitCode =
                switch error.code {
                case .invalidURL: .usage
                case .unknownHost, .unreachable, .timedOut, .connectionLost, .contention, .tooManyConnections: .tryAgain
                case .wrongPassword, .refusedUser, .missingRights, .readOnlyServer: .notPermitted
                case .missingDatabase, .otherRepository: .noSuchStore
                case .foreignTables, .invalidAnswer: .damagedData
                case .diskFull: .inputOutput
                case .encryptionFailed, .notSetUp, .serverError, .unknownLayout: .failed
                }
            let hint = error.code == .notSetUp ? "Name the remote, and they are made: cipherctl sync run --remote" : nil
            return SyncErrorReport(name: error.code.rawValue, text: "\(error)", hint: hint, exitCode: exitCode)
        }
    }
#else
    /// Servers as remotes: this build has none.
    enum ServerRemote {
        private static let missing = CommandFailure(
            .unsupported, "noPostgreSQL", what: "This program was built without PostgreSQL.",
            why: "A server as a remote needs libpq, and so the trait PostgreSQL of the package.",
            hint: "Build it with: swift build -c release --traits PostgreSQL; or use a folder, --remote dir:PATH")

        static func make(_ address: RemoteAddress, _ repository: RepositoryID) throws -> any SyncRemote {
            throw missing
        }

        static func setUp(_ remote: any SyncRemote) async throws { throw missing }

        static func report(_ error: any Error) -> SyncErrorReport? { nil }
    }
#endif
