#if S3
    import Foundation
    import ObjectServers
    import StorePlatform
    import Synchronization
    import TestKit
    import Testing

    @testable import S3Storage

    @Suite("Objects in a bucket") struct S3ObjectStoreTests {
        private func bytes(_ count: Int, _ first: Int = 0) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ first) }
        }

        @Test("objects are stored once, read whole or in parts, listed and removed")
        func calls() throws {
            let fixture = try ServerFixture()
            let store = fixture.store
            #expect(try store.put("p/a", bytes(1000)) == .stored)
            #expect(try store.put("p/a", bytes(5)) == .alreadyPresent)
            #expect(try store.put("p/empty", []) == .stored)
            #expect(try store.get("p/a", limitBytes: 1000) == bytes(1000))
            #expect(try store.get("p/a", limitBytes: 10) == Array(bytes(1000).prefix(11)))
            #expect(try store.get("p/none", limitBytes: 10) == nil)
            #expect(try store.get("p/empty", limitBytes: 10) == [])
            #expect(try store.read("p/a", at: 990, byteCount: 100) == Array(bytes(1000).suffix(10)))
            #expect(try store.read("p/a", at: 2000, byteCount: 100) == [])
            try store.replace("p/a", bytes(3))
            #expect(try store.get("p/a", limitBytes: 10) == bytes(3))
            #expect(try Set(store.list("p/").map(\.name)) == ["p/a", "p/empty"])
            #expect(fixture.server.names == ["app/p/a", "app/p/empty"])
            try store.delete("p/a")
            try store.delete("p/a")
            #expect(try store.list("").map(\.name) == ["p/empty"])
        }

        @Test("a listing has all pages, and the time of the server")
        func pages() throws {
            let fixture = try ServerFixture(prefix: "")
            fixture.server.with { state in
                state.pageNames = 7
                state.clockOffset = -5000
                for number in 0..<40 { state.objects["b/\(number)"] = .init(bytes: [1, 2], stored: state.now - 100) }
            }
            let listing = try fixture.store.listing("b/")
            #expect(Set(listing.entries.map(\.name)) == Set((0..<40).map { "b/\($0)" }))
            #expect(listing.entries.allSatisfy { (99...160).contains(listing.now - $0.stored) && $0.byteCount == 2 })
            #expect(abs(listing.now - Int(Date().timeIntervalSince1970) + 5000) < 10)
            #expect(fixture.server.count("LIST") == 6)
        }

        @Test("a server that ignores conditions replaces, and one that refuses them is asked first")
        func conditions() throws {
            let fixture = try ServerFixture()
            fixture.server.with { $0.conditions = .ignored }
            #expect(try fixture.store.put("p/a", [1]) == .stored)
            #expect(try fixture.store.put("p/a", [2]) == .stored)
            fixture.server.with { $0.conditions = .refused }
            #expect(try fixture.store.put("p/a", [3]) == .alreadyPresent)
            #expect(try fixture.store.put("p/b", [3]) == .stored)
            #expect(try fixture.store.get("p/a", limitBytes: 9) == [2])
            // It is not asked again whether it knows conditions: one refused PUT.
            #expect(fixture.server.count("PUT") == 4)
        }

        @Test("a put whose answer is lost is repeated, and finds its own object")
        func lostAnswer() throws {
            let fixture = try ServerFixture { _ in
            } _: { request, count in
                request.call == "PUT" && count == 1 ? .cutAfter : nil
            }
            #expect(try fixture.store.put("p/a", bytes(100)) == .alreadyPresent)
            #expect(try fixture.store.get("p/a", limitBytes: 100) == bytes(100))
        }

        @Test(
            "a failure that passes is waited out",
            arguments: [
                ObjectServer.Fault.status(500, code: "InternalError"), .status(503, code: "SlowDown"),
                .status(429, code: "TooManyRequests"), .status(409, code: "ConditionalRequestConflict"), .cutBefore,
                .truncated,
            ])
        func transient(fault: ObjectServer.Fault) throws {
            let fixture = try ServerFixture { _ in
            } _: { request, count in
                request.method != "PUT" && count == 1 ? fault : nil
            }
            #expect(try fixture.store.put("p/a", bytes(100)) == .stored)
            #expect(try fixture.store.get("p/a", limitBytes: 100) == bytes(100))
            #expect(try fixture.store.list("p/").count == 1)
            try fixture.store.delete("p/a")
            #expect(fixture.server.names.isEmpty)
        }

        @Test("each refusal has its code, its sentence, and no second attempt unless it may pass")
        func refusals() throws {
            let cases: [(ObjectServer.Fault, S3Error.Code, attempts: Int)] = [
                (.status(403, code: "AccessDenied"), .accessDenied, 1),
                (.status(403, code: "RequestTimeTooSkewed"), .clockSkew, 1),
                (.status(403, code: "SignatureDoesNotMatch"), .wrongCredentials, 1),
                (.status(403, code: "InvalidAccessKeyId"), .wrongCredentials, 1),
                (.status(400, code: "ExpiredToken"), .expiredCredentials, 2),
                (.status(404, code: "NoSuchBucket"), .noSuchBucket, 1),
                (
                    .status(301, code: "PermanentRedirect", headers: ["x-amz-bucket-region": "eu-west-1"]),
                    .otherRegion, 1
                ),
                (.status(307, code: "", headers: ["Location": "http://127.0.0.1:1/"]), .otherRegion, 1),
                (.status(507, code: "XMinioStorageFull"), .full, 1),
                (.status(418, code: "Teapot"), .refused, 1), (.status(500, code: "InternalError"), .busy, 3),
                (.cutBefore, .connectionLost, 3),
            ]
            for (fault, code, attempts) in cases {
                let fixture = try ServerFixture { _ in
                } _: { _, _ in
                    fault
                }
                #expect(ServerFixture.code { try fixture.store.put("p/a", [1]) } == code)
                #expect(fixture.server.count("PUT") == attempts, "\(code)")
                #expect(ServerFixture.code { try fixture.store.get("p/a", limitBytes: 9) } == code)
                #expect(ServerFixture.code { try fixture.store.list("p/") } == code)
                #expect(ServerFixture.code { try fixture.store.delete("p/a") } == code)
            }
            let region = try ServerFixture { _ in
            } _: { _, _ in
                .status(301, code: "PermanentRedirect", headers: ["x-amz-bucket-region": "eu-west-1"])
            }
            let error = #expect(throws: S3Error.self) { try region.store.list("") }
            #expect(
                error?.description.contains("eu-west-1") == true && error?.description.contains("AWS_REGION") == true)
        }

        @Test("a server that is silent, not there, or without TLS is named as such, and a cancelled call ends")
        func unreachable() throws {
            let silent = try ServerFixture({ options in
                options.attempts = 1
                options.idleLimit = .seconds(1)
            }) { _, _ in .silence }
            #expect(ServerFixture.code { try silent.store.get("p/a", limitBytes: 9) } == .timedOut)
            func code(_ endpoint: String) throws -> S3Error.Code? {
                var options = ServerFixture.options(endpoint)
                options.attempts = 1
                let store = try S3ObjectStore(S3Address("s3://backups/a"), options)
                return ServerFixture.code { try store.get("p/a", limitBytes: 9) }
            }
            #expect(try code("http://127.0.0.1:\(Loopback.freePort())") == .unreachable)
            #expect(try code(silent.server.url.replacing("http:", with: "https:")) == .encryptionFailed)
            #expect(try code("https://name.invalid") == .unknownHost)
            let isOver = Flag()
            let cancelled = try ServerFixture({ options in
                options.isCancelled = { isOver.isSet }
                options.idleLimit = .seconds(60)
            }) { _, _ in
                isOver.set()
                return .silence
            }
            #expect(throws: CancellationError.self) { try cancelled.store.get("p/a", limitBytes: 900) }
        }

        @Test("an answer that no object storage gives is refused")
        func foreignAnswers() throws {
            let fixture = try ServerFixture()
            fixture.server.with { $0.objects["app/p/a"] = .init(bytes: Array("<html>".utf8), stored: 0) }
            #expect(XMLElement.parse(Array("<html>".utf8)) == nil && XMLElement.parse([]) == nil)
            let bomb = "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a><Key>&b;</Key></a>"
            #expect(XMLElement.parse(Array(bomb.utf8))?.text(of: "Key")?.contains("root") != true)
            #expect(ServerTime.seconds("2026-11-28T10:15:30.000Z") == 1_795_860_930)
            #expect(ServerTime.seconds("2024-02-29T00:00:00Z") == 1_709_164_800)
            #expect(ServerTime.seconds("yesterday") == nil)
        }

        @Test("a long object is stored in parts; if that fails, the parts are removed")
        func multipart() throws {
            let long = [UInt8](repeating: 7, count: S3Limits.partBytes) + bytes(1000)
            let fixture = try ServerFixture()
            #expect(try fixture.store.put("o/a", long) == .stored)
            #expect(fixture.server.with { $0.objects["app/o/a"]?.bytes } == long)
            #expect(try fixture.store.put("o/a", long) == .alreadyPresent)
            #expect(fixture.server.with { $0.uploads.isEmpty })
            for call in ["PUT uploadId", "POST uploadId"] {
                let failing = try ServerFixture { _ in
                } _: { request, count in
                    request.call == call ? .status(403, code: "AccessDenied") : nil
                }
                #expect(ServerFixture.code { try failing.store.put("o/a", long) } == .accessDenied)
                #expect(failing.server.with { $0.uploads.isEmpty && $0.objects.isEmpty })
            }
            // The completion is done, and its answer is lost.
            let lost = try ServerFixture { _ in
            } _: { request, count in
                request.call == "POST uploadId" && count == 1 ? .cutAfter : nil
            }
            #expect(try lost.store.put("o/a", long) == .alreadyPresent)
        }

        @Test("uploads of killed processes are removed when they are old")
        func oldUploads() throws {
            let fixture = try ServerFixture()
            fixture.server.with { state in
                state.uploads["old"] = .init(key: "app/o/a", begun: state.now - 4000)
                state.uploads["new"] = .init(key: "app/o/b", begun: state.now)
                state.uploads["foreign"] = .init(key: "other/o/b", begun: state.now - 4000)
            }
            #expect(try fixture.store.removeUploads(olderThan: 3600) == 1)
            #expect(fixture.server.with { Set($0.uploads.keys) } == ["new", "foreign"])
        }

        @Test("the bandwidth is limited")
        func bandwidth() throws {
            let fixture = try ServerFixture({ $0.bytesPerSecond = 400_000 })
            let start = ContinuousClock.now
            _ = try fixture.store.put("p/a", bytes(600_000))
            #expect(ContinuousClock.now - start > .milliseconds(700))
        }

        @Test("a certificate is verified: one of a stranger is refused, one of a named authority is not")
        func certificates() throws {
            let folder = TemporaryFolder()
            let openssl = URL(filePath: "/usr/bin/openssl")
            let key = ["-keyout", folder.path("key.pem"), "-out", folder.path("cert.pem")]
            let made = Process()
            made.executableURL = openssl
            made.arguments =
                ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
                + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"] + key
            made.standardError = FileHandle.nullDevice
            try made.run()
            made.waitUntilExit()
            try #require(made.terminationStatus == 0)
            let port = try Loopback.freePort()
            let server = Process()
            server.executableURL = openssl
            server.arguments =
                ["s_server", "-quiet", "-www", "-accept", "127.0.0.1:\(port)", "-key", folder.path("key.pem")]
                + ["-cert", folder.path("cert.pem")]
            server.standardOutput = FileHandle.nullDevice
            server.standardError = FileHandle.nullDevice
            try server.run()
            defer {
                kill(server.processIdentifier, SIGKILL)
                server.waitUntilExit()
            }
            func code(_ host: String, trusting file: String?) throws -> S3Error.Code? {
                var options = ServerFixture.options("https://\(host):\(port)")
                options.certificateFile = file
                options.attempts = 1
                let store = try S3ObjectStore(S3Address("s3://backups/a"), options)
                return ServerFixture.code { try store.list("") }
            }
            #expect(try waitUntil { try code("localhost", trusting: nil) != .unreachable })
            #expect(try code("localhost", trusting: nil) == .encryptionFailed)
            // The answer of this server is that of no object storage; it may end without a word of TLS.
            let answered: [S3Error.Code?] = [.invalidAnswer, .connectionLost]
            #expect(try answered.contains(code("localhost", trusting: folder.path("cert.pem"))))
            // The certificate is for another name.
            #expect(try code("127.0.0.1", trusting: folder.path("cert.pem")) == .encryptionFailed)
        }
    }
#endif
