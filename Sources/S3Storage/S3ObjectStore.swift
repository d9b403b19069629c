#if S3
    import Dispatch
    import KeyCustody
    import ObjectStorage
    import StoreBackups
    import StoreCrypto
    import StorePlatform
    import Synchronization

    /// Objects in a bucket of an S3-compatible server.
    ///
    /// Every call is repeated after a failure that may pass. A call that was done while its answer was lost is done twice,
    /// so a `put` may find its own object and return `alreadyPresent`.
    ///
    /// `put` sends `If-None-Match: *`. A server that ignores it replaces an object; one that refuses it is asked for the
    /// object first. Names of objects are hashes of their content or random, so both are safe.
    ///
    /// - SeeAlso: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
    package final class S3ObjectStore: ServedObjects {
        let place: String
        let prefix: String
        let endpoint: S3Endpoint
        private let transfer: HTTPTransfer
        private let credentials: CredentialCache
        private let options: S3Options
        /// Whether the server refuses conditions.
        private let refusesConditions = Atomic<Bool>(false)
        /// One transfer at a time where the bandwidth is limited.
        private let turn: DispatchSemaphore?

        /// - Throws: ``S3Error`` `invalidPlace`.
        package init(_ address: S3Address, _ options: S3Options) throws {
            place = "\(address)"
            prefix = address.prefix.isEmpty ? "" : address.prefix + "/"
            endpoint = try S3Endpoint(address, options)
            credentials = CredentialCache(options.credentials)
            turn = options.bytesPerSecond == nil ? nil : DispatchSemaphore(value: 1)
            transfer = HTTPTransfer(
                .init(
                    signature: "aws:amz:\(options.region):s3", certificateFile: options.certificateFile,
                    connectLimit: options.connectLimit, idleLimit: options.idleLimit,
                    bytesPerSecond: options.bytesPerSecond))
            self.options = options
        }

        package var description: String { place }

        package func isDenied(_ error: any Error) -> Bool { (error as? S3Error)?.code == .accessDenied }

        // MARK: Objects

        package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
            let condition = "If-None-Match: *"
            if !refusesConditions.load(ordering: .relaxed) {
                do {
                    let answer = try store(name, bytes, [condition], expecting: [200, 412])
                    return answer.status == 412 ? .alreadyPresent : .stored
                } catch let refusal as RefusedCondition {
                    _ = refusal
                    refusesConditions.store(true, ordering: .relaxed)
                }
            }
            if try read(name, at: 0, byteCount: 1) != nil { return .alreadyPresent }
            _ = try store(name, bytes, [], expecting: [200])
            return .stored
        }

        package func replace(_ name: String, _ bytes: [UInt8]) throws {
            _ = try store(name, bytes, [], expecting: [200])
        }

        private func store(
            _ name: String, _ bytes: [UInt8], _ conditions: [String], expecting statuses: Set<Int>
        ) throws -> HTTPAnswer {
            if bytes.count > S3Limits.partBytes {
                return try MultipartUpload(of: bytes, to: key(name), at: self).run(conditions, statuses)
            }
            return try send(.put, key(name), headers: conditions, body: bytes, expecting: statuses)
        }

        package func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
            try read(name, at: 0, byteCount: limitBytes + 1)
        }

        package func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
            guard byteCount > 0 else { return [] }
            let answer = try send(
                .get, key(name), headers: ["Range: bytes=\(offset)-\(offset + byteCount - 1)"],
                expecting: [200, 206, 404, 416],
                // A server may ignore the range.
                limitBytes: offset + byteCount, isCancellable: byteCount > S3Limits.markBytes)
            switch answer.status {
            case 404:
                // A missing bucket has the same status.
                let error = S3Error(answer, place)
                guard error.code != .noSuchBucket else { throw error }
                return nil
            case 416: return []
            // The server has ignored the range.
            case 200: return Array(answer.body.dropFirst(offset).prefix(byteCount))
            default:
                guard answer.body.count <= byteCount else { throw S3Error(.invalidAnswer, place, "a longer range") }
                return answer.body
            }
        }

        package func delete(_ name: String) throws {
            let answer = try send(.delete, key(name), expecting: [200, 204, 404], isCancellable: false)
            guard answer.status == 404 else { return }
            let error = S3Error(answer, place)
            if error.code == .noSuchBucket { throw error }
        }

        package func list(_ prefix: String) throws -> [ListedObject] {
            try listing(prefix).entries.map { ListedObject(name: $0.name, byteCount: $0.byteCount) }
        }

        // MARK: Requests

        func key(_ name: String) -> String { prefix + name }

        /// A server that does not implement conditions.
        struct RefusedCondition: Error {}

        /// Sends a request until it is answered with one of some statuses.
        ///
        /// - Parameter isCancellable: Whether it ends when the work is cancelled. A cancelled backup still removes its mark.
        /// - Throws: ``S3Error``; `CancellationError`; errors of the source of credentials.
        func send(
            _ method: HTTPRequest.Method, _ key: String = "", _ query: [String: String] = [:], headers: [String] = [],
            body: [UInt8] = [], expecting statuses: Set<Int>, limitBytes: Int = S3Limits.answerBytes,
            isCancellable: Bool = true
        ) throws -> HTTPAnswer {
            let digest = Hex.text(try ContentDigest.sha256(body))
            var all = headers + ["x-amz-content-sha256: \(digest)"]
            if method == .put || method == .post { all.append("Content-Type: application/octet-stream") }
            let request = HTTPRequest(
                method: method, url: endpoint.url(key, query), headers: all, body: body,
                // An error is longer than many objects.
                limitBytes: max(limitBytes, S3Limits.headerBytes))
            let isCancelled = isCancellable ? options.isCancelled : Self.never
            return try repeating(isCancelled) {
                let answer = try transfer.send(request, as: try credentials.credentials(), isCancelled)
                if statuses.contains(answer.status) { return answer }
                if answer.status == 501, headers.contains(where: { $0.hasPrefix("If-") }) { throw RefusedCondition() }
                throw S3Error(answer, place)
            }
        }

        private static let never: @Sendable () -> Bool = { false }

        private func repeating<R>(_ isCancelled: () -> Bool, _ call: () throws -> R) throws -> R {
            var retry = RetryPause(
                attempts: options.attempts, first: .milliseconds(100), longest: .seconds(5), limit: options.retryLimit)
            var hasNewCredentials = false
            while true {
                if isCancelled() { throw CancellationError() }
                turn?.wait()
                let result = Result { try call() }
                turn?.signal()
                let error: S3Error
                do {
                    return try result.get()
                } catch let failure as TransferFailure {
                    error = S3Error(of: failure, place)
                } catch let found as S3Error {
                    error = found
                }
                if error.code == .expiredCredentials, !hasNewCredentials {
                    hasNewCredentials = true
                    credentials.forget()
                    continue
                }
                guard error.isTransient, let pause = retry.pause() else { throw error }
                if options.isCancelled() { throw CancellationError() }
                wait(pause)
            }
        }

        private func wait(_ pause: Duration) {
            let end = ContinuousClock.now + pause
            while ContinuousClock.now < end, !options.isCancelled() {
                Pause.sleep(for: min(.milliseconds(50), end - .now))
            }
        }
    }
#endif
