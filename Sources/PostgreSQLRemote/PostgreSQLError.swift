#if PostgreSQL
    /// Why a PostgreSQL server could not be used as a remote. Nothing is lost: the call may be repeated when the cause is
    /// removed. ``RemoteFailure`` has the errors that every remote may have.
    public struct PostgreSQLError: Error, Hashable, Sendable {
        public enum Code: String, Hashable, Sendable {
            /// The URL cannot be read.
            case invalidURL
            /// The name of the host cannot be resolved.
            case unknownHost
            /// Nobody answers at the address.
            case unreachable
            /// The connection cannot be encrypted as the URL demands.
            case encryptionFailed
            /// SQLSTATE 28P01.
            case wrongPassword
            /// SQLSTATE 28000: the server admits no such user from here.
            case refusedUser
            /// SQLSTATE 3D000.
            case missingDatabase
            /// SQLSTATE 42501.
            case missingRights
            /// SQLSTATE 25006: a standby, or a server that was set so.
            case readOnlyServer
            /// SQLSTATE 53100.
            case diskFull
            /// SQLSTATE 53300.
            case tooManyConnections
            /// SQLSTATE 42P01, 3F000: the tables are missing.
            case notSetUp
            /// Tables of these names have other columns.
            case foreignTables
            /// Another version of this library has made the tables.
            case unknownLayout
            /// The database has other repositories, and not this one.
            case otherRepository
            /// No answer within the time limit. The request may have taken effect.
            case timedOut
            /// The connection was lost again and again, or the server is being shut down or started.
            case connectionLost
            /// Other transactions were always ahead: SQLSTATE 40001, 40P01, 40003.
            case contention
            /// The server has answered what no statement of this library can have as its answer.
            case invalidAnswer
            /// Anything else that the server reports.
            case serverError
        }

        public let code: Code
        /// The name of the remote, without credentials.
        public let remote: String
        /// The message of the server or of libpq, in printable characters; not a value of a row.
        public let detail: String?
        /// Five letters and digits. <https://www.postgresql.org/docs/current/errcodes-appendix.html>
        public let sqlState: String?

        init(_ code: Code, _ remote: String, _ detail: String? = nil, sqlState: String? = nil) {
            self.code = code
            self.remote = remote
            self.detail = detail.map(Self.printable)
            self.sqlState = sqlState
        }

        /// Text of others in one line of limited length.
        private static func printable(_ text: String) -> String {
            let kept = text.unicodeScalars.prefix(PostgreSQLLimits.messageCharacters).map { scalar in
                scalar.value >= 0x20 && scalar.value < 0x7F ? Character(scalar) : " "
            }
            return String(kept).split(separator: " ").joined(separator: " ")
        }
    }

    extension PostgreSQLError: CustomStringConvertible {
        public var description: String {
            let report = [sqlState.map { "SQLSTATE \($0)" }, detail.map { "\"\($0)\"" }].compactMap(\.self)
            let said = report.isEmpty ? "" : " (" + report.joined(separator: ", ") + ")"
            return "\(code.rawValue): \(remote)\(said): \(advice)"
        }

        private var advice: String {
            switch code {
            case .invalidURL:
                "this is no URL of a PostgreSQL server. Write postgresql://user@host:5432/database?sslmode=verify-full."
            case .unknownHost: "the name of the host cannot be resolved. Check the host in the URL, and the network."
            case .unreachable:
                "the server does not answer. Check host and port in the URL, the network, and that the server runs."
            case .encryptionFailed:
                "the connection cannot be encrypted as the URL demands. Check sslmode and sslrootcert in the URL, and the "
                    + "certificate of the server."
            case .wrongPassword:
                "the password is wrong, or missing. Write it into ~/.pgpass or the environment variable PGPASSWORD."
            case .refusedUser:
                "the server does not admit this user from here. Check the user in the URL, and the server's pg_hba.conf."
            case .missingDatabase: "there is no such database. Create it with createdb, or correct the URL."
            case .missingRights:
                "the user lacks a right. To set up, it must be permitted to create a schema in the database; then it needs "
                    + "USAGE on the schema, SELECT on its tables, and to write INSERT on repository and object. A role puts "
                    + "segments of its own author alone if the table writer says so, and removes objects that it has put."
            case .readOnlyServer: "the server permits no writing: it may be a standby. Use the address of the primary."
            case .diskFull: "the disk of the server is full. Nothing is lost; free some space there and sync again."
            case .tooManyConnections:
                "the server has no connection left. Raise max_connections, or connect through a pooler such as pgbouncer."
            case .notSetUp: "the tables of the remote are missing. Set the remote up once."
            case .foreignTables:
                "the tables have other columns than this library makes. Another program made them: use another database."
            case .unknownLayout:
                "another version of this library uses the tables for this repository. Install the newer version here."
            case .otherRepository:
                "the database has other repositories, and not this one. Correct the URL, or say that the database is shared."
            case .timedOut: "no answer within the time limit. What was sent may have taken effect; sync again."
            case .connectionLost: "the connection was lost several times. Sync again when the server is back."
            case .contention: "other transactions were ahead several times. Sync again."
            case .invalidAnswer:
                "the answer cannot come from these tables: a damaged or hostile server, or a defect of this library."
            case .serverError: "the server has reported an error. Nothing is lost; see the log of the server."
            }
        }
    }

    // MARK: From SQLSTATE

    extension PostgreSQLError {
        /// The error that a server has reported.
        static func reported(_ remote: String, sqlState: String?, _ message: String?) -> PostgreSQLError {
            guard let sqlState else { return PostgreSQLError(.connectionLost, remote, message) }
            return PostgreSQLError(code(of: sqlState), remote, message, sqlState: sqlState)
        }

        private static func code(of sqlState: String) -> Code {
            switch sqlState {
            case "28P01": .wrongPassword
            case "28000": .refusedUser
            case "3D000": .missingDatabase
            case "42501": .missingRights
            case "25006": .readOnlyServer
            case "53100": .diskFull
            case "53300": .tooManyConnections
            case "42P01", "3F000": .notSetUp
            case "42703", "42804", "42883", "42P10": .foreignTables
            case "57014": .timedOut
            case "40001", "40P01", "40003": .contention
            case "57P01", "57P02", "57P03": .connectionLost
            case let state where state.hasPrefix("08"): .connectionLost
            default: .serverError
            }
        }

        /// Whether the same call may succeed in a moment. Every statement here may be repeated, also when nobody knows
        /// whether it took effect: what is there is asked for again.
        var isTransient: Bool {
            switch code {
            case .contention, .connectionLost, .unreachable, .tooManyConnections: true
            default: false
            }
        }

        /// Whether another host of the same URL may answer.
        var permitsNextHost: Bool { isTransient || [.unknownHost, .timedOut, .readOnlyServer].contains(code) }

        /// The error of an attempt to connect, as libpq reports it.
        ///
        /// - Parameter message: Of a connection with the verbosity `PQERRORS_SQLSTATE`: it ends with the SQLSTATE if the
        ///   server has given one. Other texts are libpq's own, in the language of the process.
        static func connecting(_ remote: String, _ message: String) -> PostgreSQLError {
            let words = message.split { $0 == " " || $0 == "\n" }
            let states = words.filter { word in
                word.utf8.count == 5
                    && word.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) }
                    && word.utf8.contains { (0x30...0x39).contains($0) }
            }
            if let state = states.last, message.contains(":  \(state)") {
                return reported(remote, sqlState: String(state), nil)
            }
            let text = message.lowercased()
            if text.contains("translate host name") { return PostgreSQLError(.unknownHost, remote) }
            if text.contains("ssl") || text.contains("certificate") {
                return PostgreSQLError(.encryptionFailed, remote, message)
            }
            if text.contains("no password supplied") {
                return PostgreSQLError(.wrongPassword, remote)
            }
            return PostgreSQLError(.unreachable, remote, message)
        }
    }
#endif
