#if S3
    /// The pauses between the attempts of a call: twice as long each time, of which a random part is waited.
    struct RetryPause: Sendable {
        private let longest: Duration
        private let deadline: ContinuousClock.Instant
        private var next: Duration
        private var left: Int

        /// - Parameters:
        ///   - attempts: How often the call is made at most.
        ///   - limit: No attempt begins later than this.
        init(attempts: Int, first: Duration, longest: Duration, limit: Duration) {
            left = attempts - 1
            next = first
            self.longest = longest
            deadline = .now + limit
        }

        /// - Returns: The pause before the next attempt; nil after the last one.
        mutating func pause() -> Duration? {
            guard left > 0, ContinuousClock.now < deadline else { return nil }
            left -= 1
            defer { next = min(next * 2, longest) }
            return next * Double.random(in: 0.5...1)
        }
    }
#endif
