#if S3
    import Foundation
    import ObjectServers
    import StoreCrypto
    import TestKit
    import Testing

    @testable import S3Storage

    /// A server that does what a test wants, and a store there that gives up soon.
    struct ServerFixture {
        let server: ObjectServer
        let store: S3ObjectStore

        init(
            prefix: String = "app", _ change: (inout S3Options) -> Void = { _ in },
            _ plan: @escaping @Sendable (ObjectServer.Request, Int) -> ObjectServer.Fault? = { _, _ in nil }
        ) throws {
            server = try ObjectServer(plan)
            var options = Self.options(server.url)
            change(&options)
            store = try S3ObjectStore(S3Address("s3://backups/\(prefix)"), options)
        }

        static func options(_ endpoint: String) -> S3Options {
            var options = S3Options()
            options.endpoint = endpoint
            options.credentials = .fixed
            options.attempts = 3
            return options
        }

        static func code(_ body: () throws -> some Any) -> S3Error.Code? {
            do {
                _ = try body()
                return nil
            } catch { return (error as? S3Error)?.code }
        }
    }

    extension S3CredentialSource {
        /// Credentials that no server knows.
        static let fixed = S3CredentialSource(
            .init(accessKeyID: "AKIATEST", secretAccessKey: SecretBytes(copying: "not a secret".utf8)))
    }
#endif
