#if PostgreSQL
    /// How long to wait before a call is repeated: twice as long each time, and a random part of that, so that replicas that
    /// were all disconnected at once do not come back at once.
    struct Retry: Sendable {
        private let longest: Duration
        private let attempts: Int
        private var next: Duration
        private var made = 1

        /// - Parameter attempts: How often the call is made at most.
        init(attempts: Int = 7, first: Duration = .milliseconds(25), longest: Duration = .seconds(2)) {
            self.attempts = attempts
            self.longest = longest
            next = first
        }

        /// - Returns: The pause before the next attempt; nil when there were enough.
        mutating func pause(using random: inout some RandomNumberGenerator) -> Duration? {
            guard made < attempts else { return nil }
            made += 1
            defer { next = min(next * 2, longest) }
            return next * Double.random(in: 0.5...1, using: &random)
        }

        mutating func pause() -> Duration? {
            var random = SystemRandomNumberGenerator()
            return pause(using: &random)
        }
    }
#endif
