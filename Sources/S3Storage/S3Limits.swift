#if S3
    /// Every bound of this module.
    enum S3Limits {
        /// The longest headers of an answer.
        static let headerBytes = 64 * 1024
        /// The longest answer that is no object: a page of a listing, or an error.
        static let answerBytes = 16 << 20
        /// The longest object that is read although the work is cancelled: a mark.
        static let markBytes = 65
        /// The most pages of a listing, of 1,000 names each.
        static let listingPages = 16_000
        /// The longest object that one request stores, and the length of the parts of longer ones.
        static let partBytes = 32 << 20
        /// The most parts of an object, as S3 has it.
        static let parts = 10_000
        /// How many objects are removed at once.
        static let removalsAtOnce = 8
        /// The text of a server that an error repeats, in characters.
        static let messageCharacters = 200
        /// The longest output of a command or file with credentials.
        static let credentialsBytes = 64 * 1024
        /// How long a command for credentials may run.
        static let commandWait = Duration.seconds(30)
        /// Credentials are asked for again so long before they expire.
        static let expiryMargin = Duration.seconds(300)
    }
#endif
