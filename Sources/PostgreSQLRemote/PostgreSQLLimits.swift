#if PostgreSQL
    /// Every bound of this module; what the objects of all remotes are bounded by is in ChangesetSync's `ExchangeLimits`.
    enum PostgreSQLLimits {
        /// The longest URL of a server.
        static let urlBytes = 4096
        /// Names of objects that are asked for by one statement.
        static let namesAtOnce = 20_000
        /// The longest name of an object.
        static let nameBytes = 200

        /// How much longer the values of an answer may be than those that this library has written.
        static let answerOverheadBytes = 64 * 1024
        /// One message of a server, and all that comes between two rows. A row has one object, and a system may have received
        /// six megabytes before one byte is read.
        static let messageBytes = 64 * 1024 * 1024
        /// The bytes that a server may send until the connection is ready.
        static let greetingBytes = 1024 * 1024
        /// The text of a server that an error repeats.
        static let messageCharacters = 200

        /// Cancellations that are sent to servers at once. They block a thread each; where there are more, the connection is
        /// closed without one.
        static let cancellationsAtOnce = 2
        /// An idle connection is tried before it is used when it was idle for longer: a firewall may have forgotten it.
        static let trustedIdleTime = Duration.seconds(15)
        /// Longest wait for the answer of a connection that is tried.
        static let checkLimit = Duration.seconds(3)
        /// An idle connection is closed after this time, so that many replicas that wait use nothing of the server.
        static let idleLimit = Duration.seconds(30)
        /// A connection is not used again after this time, so that load moves to servers that were added.
        static let connectionAge = Duration.seconds(600)
    }
#endif
