import ChangesetSync

#if PostgreSQL
    import PostgreSQLRemote

    /// Servers as remotes.
    enum ServerRemote {
        static func make(_ address: RemoteAddress, _ repository: RepositoryID) throws -> any ObjectStore {
            try PostgreSQLObjectStore(url: address.text, repository: repository)
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
            return SyncErrorReport(name: error.code.rawValue, text: "\(error)", exitCode: exitCode)
        }
    }
#else
    /// Servers as remotes: this build has none.
    enum ServerRemote {
        static func make(_ address: RemoteAddress, _ repository: RepositoryID) throws -> any ObjectStore {
            throw CommandFailure(
                .unsupported, "noPostgreSQL", what: "This program was built without PostgreSQL.",
                why: "A server as a remote needs libpq, and so the trait PostgreSQL of the package.",
                hint: "Build it with: swift build -c release --traits PostgreSQL; or use a folder, --remote dir:PATH")
        }

        static func report(_ error: any Error) -> SyncErrorReport? { nil }
    }
#endif
