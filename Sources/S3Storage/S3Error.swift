#if S3
    import ObjectStorage

    /// Why an S3-compatible server could not be used. Nothing is lost: the call may be repeated when the cause is removed.
    public struct S3Error: Error, Hashable, Sendable {
        public enum Code: String, Hashable, Sendable, CaseIterable {
            /// The name of the place or its endpoint cannot be read.
            case invalidPlace = "invalidS3Place"
            case noCredentials = "noS3Credentials"
            /// The server does not know the access key, or the signature is wrong.
            case wrongCredentials = "wrongS3Credentials"
            /// The session token has expired.
            case expiredCredentials = "expiredS3Credentials"
            case accessDenied = "s3AccessDenied"
            /// The clocks of this machine and the server differ too much.
            case clockSkew
            case noSuchBucket
            /// The bucket is in another region.
            case otherRegion
            /// The name of the host cannot be resolved.
            case unknownHost = "unknownS3Host"
            /// Nobody answers at the address.
            case unreachable = "s3Unreachable"
            /// TLS failed: the certificate is not trusted, or there is none.
            case encryptionFailed = "s3EncryptionFailed"
            /// No answer within the time limit. The request may have taken effect.
            case timedOut = "s3TimedOut"
            /// The connection was lost again and again.
            case connectionLost = "s3ConnectionLost"
            /// The server has reported an error of its own, or too many requests, at each attempt.
            case busy = "s3Busy"
            case full = "s3Full"
            /// The answer cannot come from an S3-compatible server.
            case invalidAnswer = "invalidS3Answer"
            /// Any other refusal.
            case refused = "s3Refused"
        }

        public let code: Code
        /// The name of the place, without credentials.
        public let place: String
        /// The message of the server or of libcurl, in printable characters.
        public let detail: String?

        init(_ code: Code, _ place: String, _ detail: String? = nil) {
            self.code = code
            self.place = place
            self.detail = detail.map(Self.printable)
        }

        /// Text of others in one line of limited length.
        private static func printable(_ text: String) -> String {
            let kept = text.unicodeScalars.prefix(S3Limits.messageCharacters).map { scalar in
                scalar.value >= 0x20 && scalar.value < 0x7F ? Character(scalar) : " "
            }
            return String(kept).split(separator: " ").joined(separator: " ")
        }

        /// Whether the same call may succeed in a moment.
        var isTransient: Bool {
            [.timedOut, .connectionLost, .unreachable, .busy].contains(code)
        }
    }

    extension S3Error: ObjectStoreError {
        package var isRefusal: Bool { code == .accessDenied }
    }

    extension S3Error: CustomStringConvertible {
        public var description: String {
            [what + ".", reason, remedy].filter { !$0.isEmpty }.joined(separator: " ")
        }

        /// The cause as the server or libcurl names it, as a sentence; empty if neither does.
        package var reason: String {
            detail.map { "The reason: \($0)\($0.hasSuffix(".") ? "" : ".")" } ?? ""
        }

        /// The event, with its place.
        package var what: String {
            let place = place.isEmpty ? "the object storage" : "\"\(place)\""
            return switch code {
            case .invalidPlace: "\(place) is no name of a place at object storage"
            case .noCredentials: "There are no credentials for the object storage"
            case .wrongCredentials: "The server of \(place) does not accept the credentials"
            case .expiredCredentials: "The credentials for \(place) have expired"
            case .accessDenied: "The server of \(place) denies the access"
            case .clockSkew: "The clocks of this machine and of the server of \(place) differ too much"
            case .noSuchBucket: "The bucket of \(place) does not exist"
            case .otherRegion: "The bucket of \(place) is in another region"
            case .unknownHost: "The host of \(place) cannot be resolved"
            case .unreachable: "The server of \(place) does not answer"
            case .encryptionFailed: "The connection to the server of \(place) cannot be encrypted"
            case .timedOut: "The server of \(place) did not answer in time"
            case .connectionLost: "The connection to the server of \(place) was lost several times"
            case .busy: "The server of \(place) failed at each attempt"
            case .full: "The storage of \(place) is full"
            case .invalidAnswer: "The answer of the server of \(place) is not that of object storage"
            case .refused: "The server of \(place) refused a request"
            }
        }

        /// A way to remove the cause, as sentences.
        package var remedy: String {
            switch code {
            case .invalidPlace:
                "Write s3://BUCKET/PREFIX. An endpoint begins with https://; http:// is for loopback addresses alone."
            case .noCredentials:
                "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file or a command with credentials."
            case .wrongCredentials:
                "Check the access key and the secret key, and the region, which is a part of the signature (AWS_REGION)."
            case .expiredCredentials: "Get new ones, or name a command that prints them."
            case .accessDenied:
                "Allow s3:ListBucket for the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject for the prefix."
            case .clockSkew: "Set the clock of this machine, as with timedatectl set-ntp true."
            case .noSuchBucket: "Create the bucket, or correct the name. This program creates no bucket."
            case .otherRegion: "Set AWS_REGION to the region of the bucket."
            case .unknownHost: "Check the endpoint, the region and the network."
            case .unreachable: "Check the endpoint and the network, and that the server runs."
            case .encryptionFailed:
                "Check the endpoint. To trust an authority of your own, name the file with its certificate (AWS_CA_BUNDLE)."
            case .timedOut, .connectionLost, .busy: "Nothing is lost. Run the command again."
            case .full: "Free space there, or raise the quota. Nothing is lost."
            case .invalidAnswer: "Check the endpoint, and a proxy in front of it."
            case .refused: "See the message of the server."
            }
        }
    }

    // MARK: From answers

    extension S3Error {
        init(of failure: TransferFailure, _ place: String) {
            switch failure {
            case .unknownHost: self.init(.unknownHost, place)
            case .unreachable: self.init(.unreachable, place)
            case .timedOut: self.init(.timedOut, place)
            case .connectionLost: self.init(.connectionLost, place)
            case .answerTooLong: self.init(.invalidAnswer, place, "too long")
            case .encryption(let text): self.init(.encryptionFailed, place, text)
            case .other(let text): self.init(.invalidAnswer, place, text)
            }
        }

        /// The error that a server has reported.
        ///
        /// - SeeAlso: <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>
        init(_ answer: HTTPAnswer, _ place: String) {
            let report = XMLElement.parse(answer.body)
            let error = report?.name == "Error" ? report : nil
            let name = error?.text(of: "Code") ?? ""
            let region = error?.text(of: "Region") ?? answer.headers["x-amz-bucket-region"]
            let said = [name, error?.text(of: "Message") ?? ""].filter { !$0.isEmpty }.joined(separator: ": ")
            let code = Self.code(of: name, answer.status)
            let detail = said.isEmpty ? "status \(answer.status)" : said
            switch code {
            case .otherRegion: self.init(code, place, region.map { "it is \($0)" } ?? detail)
            case .clockSkew: self.init(code, place, answer.headers["date"].map { "the server has \($0)" } ?? detail)
            default: self.init(code, place, detail)
            }
        }

        private static func code(of name: String, _ status: Int) -> Code {
            switch name {
            case "RequestTimeTooSkewed": .clockSkew
            case "NoSuchBucket": .noSuchBucket
            case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed",
                "IllegalLocationConstraintException":
                .otherRegion
            case "ExpiredToken", "TokenRefreshRequired": .expiredCredentials
            case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidSecurity",
                "InvalidClientTokenId":
                .wrongCredentials
            case "AccessDenied", "AllAccessDisabled", "AccountProblem": .accessDenied
            case "QuotaExceeded", "XMinioStorageFull", "EntityTooLarge": .full
            case "SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "ConditionalRequestConflict",
                "OperationAborted":
                .busy
            default:
                switch status {
                case 301, 302, 307, 308: .otherRegion
                case 401, 403: .accessDenied
                case 408, 409, 429, 500, 502, 503, 504: .busy
                case 507: .full
                case 400..<600: .refused
                default: .invalidAnswer
                }
            }
        }
    }
#endif
