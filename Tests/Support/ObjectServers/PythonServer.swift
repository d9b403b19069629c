import Foundation

/// A server of object storage that others have written, moto of PyPI, which checks signatures and conditions. It ends with
/// this process. `.ci/run` brings it.
public final class PythonServer: Sendable {
    public static let isAvailable: Bool = {
        let process = python(["-c", "import moto.server, boto3"])
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()

    public struct Failure: Error {}

    public let url: String
    public let accessKeyID: String
    public let secretAccessKey: String
    private let process: Process
    private let input = Pipe()
    private let refusalLog = FileManager.default.temporaryDirectory.appending(path: "refusals-\(UUID().uuidString)")

    /// Starts it with a bucket `backups` and one user.
    public init() throws {
        let output = Pipe()
        process = Self.python(["-c", Self.program, refusalLog.path])
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        var line = Data()
        while line.last != UInt8(ascii: "\n"), let next = try output.fileHandleForReading.read(upToCount: 1),
            !next.isEmpty
        {
            line += next
        }
        guard let reply = try? JSONDecoder().decode([String: String].self, from: line), let url = reply["url"],
            let id = reply["id"], let key = reply["key"]
        else { throw Failure() }
        (self.url, accessKeyID, secretAccessKey) = (url, id, key)
    }

    deinit {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: refusalLog)
    }

    /// The requests that the server refused for their signature, a line each, with the text that it has signed.
    public var refusals: String { (try? String(contentsOf: refusalLog, encoding: .utf8)) ?? "" }

    /// The variables of AWS's programs.
    public var environment: [String: String] {
        ["AWS_ACCESS_KEY_ID": accessKeyID, "AWS_SECRET_ACCESS_KEY": secretAccessKey, "AWS_ENDPOINT_URL": url]
    }

    private static func python(_ arguments: [String]) -> Process {
        let process = Process()
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..").standardized
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3"] + arguments
        let former = ProcessInfo.processInfo.environment["PYTHONPATH"].map { ":" + $0 } ?? ""
        process.environment = ProcessInfo.processInfo.environment
            .merging(["PYTHONPATH": root.appending(path: ".build/python").path + former]) { $1 }
        process.standardError = FileHandle.nullDevice
        return process
    }

    private static let program = """
        import boto3, json, sys, urllib.request
        from moto.iam.access_control import IAMRequestBase
        from moto.server import ThreadedMotoServer

        calculate = IAMRequestBase._calculate_signature
        def calculate_and_note(self):
            signature = calculate(self)
            if signature not in self._headers["Authorization"]:
                request = self._create_aws_request()
                canonical = self._create_auth(self._access_key.create_credentials()).canonical_request(request)
                with open(sys.argv[1], "a") as log:
                    print(repr((self._method, self._path, dict(self._headers), canonical)), file=log)
            return signature
        IAMRequestBase._calculate_signature = calculate_and_note

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        url = "http://127.0.0.1:%d" % server.get_host_and_port()[1]
        first = dict(endpoint_url=url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        boto3.client("s3", **first).create_bucket(Bucket="backups")
        iam = boto3.client("iam", **first)
        iam.create_user(UserName="user")
        rule = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [rule]})
        iam.put_user_policy(UserName="user", PolicyName="all", PolicyDocument=policy)
        key = iam.create_access_key(UserName="user")["AccessKey"]
        # From now on it checks each signature.
        plain = {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(url + "/moto-api/reset-auth", data=b"0", headers=plain))
        print(json.dumps({"url": url, "id": key["AccessKeyId"], "key": key["SecretAccessKey"]}), flush=True)
        sys.stdin.read()
        """
}
