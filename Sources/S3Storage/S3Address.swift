#if S3
    import Foundation

    /// A place at object storage: `s3://BUCKET/PREFIX`.
    public struct S3Address: Hashable, Sendable, CustomStringConvertible {
        public let bucket: String
        /// The first part of the names of all objects, without slashes at its ends; empty for the whole bucket.
        public let prefix: String

        /// Whether a text names such a place, well or badly written.
        public static func isNamed(by text: String) -> Bool { text.hasPrefix("s3:") }

        /// - Throws: ``S3Error`` `invalidPlace`. A prefix has letters, digits and `-._/`.
        public init(_ text: String) throws {
            func invalid(_ why: String) -> S3Error { S3Error(.invalidPlace, text, why) }
            guard text.hasPrefix("s3://") else { throw invalid("it does not begin with s3://") }
            let parts = text.dropFirst(5).split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            bucket = parts[0]
            prefix = parts.dropFirst().filter { !$0.isEmpty }.joined(separator: "/")
            // https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
            guard (3...63).contains(bucket.utf8.count), bucket.wholeMatch(of: #/[a-z0-9][a-z0-9.-]*[a-z0-9]/#) != nil
            else {
                throw invalid("a bucket has 3 to 63 of the characters a-z, 0-9, \".\" and \"-\"")
            }
            guard prefix.utf8.count <= 512, prefix.wholeMatch(of: #/[A-Za-z0-9._\/-]*/#) != nil,
                !prefix.split(separator: "/").contains(where: { $0 == "." || $0 == ".." })
            else { throw invalid("a prefix has letters, digits and \"-._/\"") }
        }

        public var description: String { "s3://\(bucket)" + (prefix.isEmpty ? "" : "/\(prefix)") }
    }

    /// How a server is reached, and with which credentials.
    public struct S3Options: Sendable {
        /// Where the bucket stands in a URL.
        public enum Addressing: String, Sendable {
            /// `https://host/bucket/`
            case path
            /// `https://bucket.host/`
            case virtualHost = "virtual"
        }

        /// The URL of the server; nil for that of AWS in the region.
        public var endpoint: String?
        /// The region, which is a part of each signature.
        public var region = "us-east-1"
        /// nil for `path` with an endpoint, and `virtualHost` without.
        public var addressing: Addressing?
        /// A file with the certificates of the authorities that are trusted, in PEM; nil for those of the system.
        public var certificateFile: String?
        public var credentials = S3CredentialSource.standard
        /// The most bytes per second in each direction; one transfer runs at a time then. nil for no limit.
        public var bytesPerSecond: Int?
        /// The longest time until a connection is made.
        public var connectLimit = Duration.seconds(10)
        /// The longest time without one byte.
        public var idleLimit = Duration.seconds(30)
        /// How often a call is made at most.
        public var attempts = 6
        /// No attempt begins later after the first one.
        public var retryLimit = Duration.seconds(60)
        /// Ends calls and the pauses between them.
        public var isCancelled: @Sendable () -> Bool = { false }

        public init() {}

        /// The options that the environment variables of AWS's programs choose: `AWS_ENDPOINT_URL_S3` or
        /// `AWS_ENDPOINT_URL`, `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_CA_BUNDLE`. `CIPHERSTORE_S3_ADDRESSING` is
        /// `path` or `virtual`.
        ///
        /// - Throws: ``S3Error`` `invalidPlace`.
        public static func ofEnvironment() throws -> S3Options {
            var options = S3Options()
            let variable = S3CredentialSource.variable
            options.endpoint = variable("AWS_ENDPOINT_URL_S3") ?? variable("AWS_ENDPOINT_URL")
            options.region = variable("AWS_REGION") ?? variable("AWS_DEFAULT_REGION") ?? options.region
            options.certificateFile = variable("AWS_CA_BUNDLE")
            if let text = variable("CIPHERSTORE_S3_ADDRESSING") {
                guard let addressing = Addressing(rawValue: text) else {
                    throw S3Error(.invalidPlace, "", "CIPHERSTORE_S3_ADDRESSING is path or virtual")
                }
                options.addressing = addressing
            }
            return options
        }
    }

    /// The URLs of a bucket at a server.
    struct S3Endpoint: Sendable {
        /// The URL of the bucket, with a slash at its end.
        private let base: String

        init(_ address: S3Address, _ options: S3Options) throws {
            guard options.region.wholeMatch(of: #/[a-z0-9-]{1,64}/#) != nil else {
                throw S3Error(.invalidPlace, "\(address)", "a region has letters, digits and \"-\"")
            }
            let text = options.endpoint ?? "https://s3.\(options.region).amazonaws.com"
            guard let url = URLComponents(string: text), let scheme = url.scheme, let host = url.host, !host.isEmpty,
                url.path.isEmpty || url.path == "/", url.query == nil, url.fragment == nil, url.user == nil,
                url.password == nil
            else { throw S3Error(.invalidPlace, "\(address)", "the endpoint is no URL of a server") }
            let isLoopback = ["localhost", "127.0.0.1", "[::1]", "::1"].contains(host)
            guard scheme == "https" || scheme == "http" && isLoopback else {
                throw S3Error(.invalidPlace, "\(address)", "the endpoint is not encrypted")
            }
            let server = host + (url.port.map { ":\($0)" } ?? "")
            // A certificate for *.host does not cover a bucket with a dot.
            let isPath =
                (options.addressing ?? (options.endpoint == nil ? .virtualHost : .path)) == .path
                || options.addressing == nil && address.bucket.contains(".")
            base = isPath ? "\(scheme)://\(server)/\(address.bucket)/" : "\(scheme)://\(address.bucket).\(server)/"
        }

        /// The URL of an object, or of the bucket. Its query is encoded and sorted as the signature wants it.
        func url(_ key: String = "", _ query: [String: String] = [:]) -> String {
            let fields = query.sorted { $0.key < $1.key }.map { "\(Self.encoded($0.key))=\(Self.encoded($0.value))" }
            return base + key + (fields.isEmpty ? "" : "?" + fields.joined(separator: "&"))
        }

        private static func encoded(_ text: String) -> String {
            text.utf8.map { byte in
                let isPlain =
                    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || [0x2D, 0x2E, 0x5F, 0x7E].contains(byte)
                return isPlain ? String(UnicodeScalar(byte)) : "%" + String(format: "%02X", byte)
            }.joined()
        }
    }
#endif
