#if S3
    import Foundation
    import ObjectServers
    import StoreCrypto
    import StorePlatform
    import TestKit
    import Testing

    @testable import S3Storage

    @Suite("Credentials and addresses of object storage") struct S3CredentialTests {
        private let folder = TemporaryFolder()

        private func file(_ text: String, mode: Int = 0o600) -> String {
            let path = folder.path("credentials")
            _ = FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: mode])
            return path
        }

        private func text(_ secret: SecretBytes?) -> String? {
            secret?.withBytes { String(decoding: $0, as: UTF8.self) }
        }

        @Test("a file has the credentials of several profiles, and is private")
        func files() throws {
            let path = file(
                """
                # comment
                [default]
                aws_access_key_id = AKIA1
                aws_secret_access_key=one/two+three==
                [work]\r
                aws_access_key_id=AKIA2\r
                  aws_secret_access_key =  four \r
                aws_session_token = five=
                [empty]
                aws_access_key_id = AKIA3
                """)
            let first = try S3CredentialSource.file(path: path).read()
            #expect(first.accessKeyID == "AKIA1" && text(first.secretAccessKey) == "one/two+three==")
            #expect(first.sessionToken == nil && !"\(first)".contains("two"))
            let second = try S3CredentialSource.file(path: path, profile: "work").read()
            #expect(second.accessKeyID == "AKIA2" && text(second.secretAccessKey) == "four")
            #expect(text(second.sessionToken) == "five=")
            for profile in ["empty", "none"] {
                let code = ServerFixture.code { try S3CredentialSource.file(path: path, profile: profile).read() }
                #expect(code == .noCredentials)
            }
            chmod(path, 0o640)
            let error = #expect(throws: StoreError.self) { try S3CredentialSource.file(path: path).read() }
            #expect(error?.code == .invalidKey)
        }

        @Test("a session token is sent, and a URL is encoded as the signature wants it")
        func requests() throws {
            let path = file("[default]\naws_access_key_id=A\naws_secret_access_key=B\naws_session_token=C/+=\n")
            let fixture = try ServerFixture({ $0.credentials = .file(path: path) }) { request, _ in
                request.headers["x-amz-security-token"] == "C/+="
                    && request.headers["authorization"]?.contains("/us-east-1/s3/aws4_request") == true
                    ? nil : .status(403, code: "SignatureDoesNotMatch")
            }
            #expect(try fixture.store.list("b/").isEmpty)
            let endpoint = try S3Endpoint(S3Address("s3://backups"), ServerFixture.options("http://localhost:9"))
            #expect(
                endpoint.url("", ["prefix": "a/b c+", "list-type": "2"])
                    == "http://localhost:9/backups/?list-type=2&prefix=a%2Fb%20c%2B")
        }

        @Test("the place of a bucket in the URL follows the endpoint, unless it is chosen")
        func addressing() throws {
            func url(_ address: String, _ change: (inout S3Options) -> Void) throws -> String {
                var options = S3Options()
                change(&options)
                return try S3Endpoint(S3Address(address), options).url("k")
            }
            #expect(try url("s3://abc/p") { $0.region = "eu-west-1" } == "https://abc.s3.eu-west-1.amazonaws.com/k")
            #expect(try url("s3://a.bc/p") { _ in } == "https://s3.us-east-1.amazonaws.com/a.bc/k")
            #expect(try url("s3://abc") { $0.endpoint = "https://host:9000/" } == "https://host:9000/abc/k")
            #expect(
                try url("s3://abc") {
                    $0.endpoint = "https://host"
                    $0.addressing = .virtualHost
                } == "https://abc.host/k")
        }

        @Test(
            "a bad name is refused with a sentence",
            arguments: [
                "s3:/backups", "s3://", "s3://Ab", "s3://ab", "s3://abc_d/p", "s3://abc/a b", "s3://abc/../x",
                "s3://-abc", "s3://abc/%41", "s3://abc/é",
            ])
        func badNames(name: String) {
            let error = #expect(throws: S3Error.self) { try S3Address(name) }
            #expect(error?.code == .invalidPlace && error?.description.contains("s3://BUCKET/PREFIX") == true)
        }

        @Test(
            "a bad endpoint is refused, and so is one without encryption that is not on loopback",
            arguments: [
                "http://example.org", "example.org", "https://", "https://example.org/path", "ftp://example.org",
                "https://user:word@example.org", "http://127.0.0.1.example.org",
            ])
        func badEndpoints(endpoint: String) throws {
            var options = S3Options()
            options.endpoint = endpoint
            let address = try S3Address("s3://abc")
            #expect(ServerFixture.code { try S3Endpoint(address, options) } == .invalidPlace)
        }

        @Test("the pauses between attempts grow, differ, and end")
        func pauses() {
            var retry = RetryPause(
                attempts: 5, first: .milliseconds(100), longest: .milliseconds(300), limit: .seconds(60))
            let pauses = (0..<6).map { _ in retry.pause() }
            #expect(pauses.compactMap(\.self).count == 4)
            for (pause, longest) in zip(pauses.compactMap(\.self), [100, 200, 300, 300]) {
                #expect(pause <= .milliseconds(longest) && pause >= .milliseconds(longest / 2))
            }
            var late = RetryPause(attempts: 5, first: .milliseconds(1), longest: .seconds(1), limit: .zero)
            #expect(late.pause() == nil)
        }
    }
#endif
