/* Drives Paho C by the commands that doc_test.go describes. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <MQTTClient.h>

#define MQTT5 (version == MQTTVERSION_5)

static int version;

static const char *env(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

static void check(int code, const char *what) {
    if (code != MQTTCLIENT_SUCCESS) {
        printf("error\t%s\t%d\n", what, code);
        exit(1);
    }
}

static int arrived(void *context, char *topic, int length, MQTTClient_message *m) {
    (void)context;
    (void)length;
    printf("message\t%s\t%d\t%.*s\n", topic, m->qos, m->payloadlen, (char *)m->payload);
    MQTTClient_freeMessage(&m);
    MQTTClient_free(topic);
    return 1;
}

/* open_session connects and returns whether the session was present; -1: the
 * library does not tell, which is so for MQTT 5. */
static int open_session(MQTTClient client) {
    MQTTClient_connectOptions options = MQTTClient_connectOptions_initializer;
    MQTTClient_connectOptions options5 = MQTTClient_connectOptions_initializer5;
    MQTTClient_SSLOptions tls = MQTTClient_SSLOptions_initializer;
    MQTTClient_willOptions will = MQTTClient_willOptions_initializer;
    int clean = strcmp(env("MQTT_CLEAN"), "1") == 0;

    if (MQTT5) {
        options = options5;
        options.cleanstart = clean;
    } else {
        options.cleansession = clean;
    }
    options.MQTTVersion = version;
    options.username = env("MQTT_USER");
    options.password = env("MQTT_PASSWORD");
    if (*env("MQTT_CA")) {
        tls.trustStore = env("MQTT_CA");
        tls.verify = 1;
        options.ssl = &tls;
    }
    if (*env("MQTT_WILL_TOPIC")) {
        will.topicName = env("MQTT_WILL_TOPIC");
        will.message = env("MQTT_WILL_PAYLOAD");
        will.qos = atoi(env("MQTT_WILL_QOS"));
        options.will = &will;
    }
    if (!MQTT5) {
        check(MQTTClient_connect(client, &options), "connect");
        return options.returned.sessionPresent;
    }
    MQTTProperties properties = MQTTProperties_initializer;
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL, .value.integer4 = clean ? 0 : 300};
    MQTTProperties_add(&properties, &expiry);
    MQTTResponse response = MQTTClient_connect5(client, &options, &properties, NULL);
    check(response.reasonCode, "connect");
    MQTTProperties_free(&properties);
    MQTTResponse_free(response);
    return -1;
}

static int subscribe_to(MQTTClient client, const char *filter, int qos) {
    if (!MQTT5) {
        check(MQTTClient_subscribe(client, filter, qos), "subscribe");
        return qos; /* another granted QoS is an error code here */
    }
    MQTTResponse response = MQTTClient_subscribe5(client, filter, qos, NULL, NULL);
    int granted = response.reasonCode;
    MQTTResponse_free(response);
    return granted;
}

static void publish_to(MQTTClient client, const char *topic, int qos, const char *payload) {
    MQTTClient_message m = MQTTClient_message_initializer;
    MQTTClient_deliveryToken token;
    m.payload = (void *)payload;
    m.payloadlen = (int)strlen(payload);
    m.qos = qos;
    if (MQTT5) {
        MQTTResponse response = MQTTClient_publishMessage5(client, topic, &m, &token);
        check(response.reasonCode, "publish");
        MQTTResponse_free(response);
    } else {
        check(MQTTClient_publishMessage(client, topic, &m, &token), "publish");
    }
    check(MQTTClient_waitForCompletion(client, token, 20000), "acknowledgment");
}

int main(void) {
    static char uri[1024], line[65536];
    MQTTClient client;
    MQTTClient_createOptions create = MQTTClient_createOptions_initializer;
    char *scheme = strdup(env("MQTT_URL")), *address = strstr(scheme, "://");

    setvbuf(stdout, NULL, _IOLBF, 0);
    *address = 0;
    address += 3;
    int web = scheme[0] == 'w';
    snprintf(uri, sizeof uri, "%s://%s%s", strcmp(scheme, "tls") == 0 ? "ssl" : scheme, address, web ? env("MQTT_PATH") : "");
    version = atoi(env("MQTT_VERSION")); /* MQTTVERSION_3_1, 3_1_1 and 5 are 3, 4 and 5 */
    create.MQTTVersion = version;
    check(MQTTClient_createWithOptions(&client, uri, env("MQTT_CLIENT_ID"), MQTTCLIENT_PERSISTENCE_NONE, NULL, &create), "create");
    check(MQTTClient_setCallbacks(client, NULL, NULL, arrived, NULL), "set callbacks");
    printf("connected\t%d\n", open_session(client));

    while (fgets(line, sizeof line, stdin)) {
        char *rest = line, *word[4] = {0};
        line[strcspn(line, "\n")] = 0;
        for (int i = 0; i < 4 && rest; i++)
            word[i] = strsep(&rest, "\t");
        if (strcmp(word[0], "subscribe") == 0) {
            printf("subscribed\t%d\n", subscribe_to(client, word[1], atoi(word[2])));
        } else if (strcmp(word[0], "publish") == 0) {
            publish_to(client, word[1], atoi(word[2]), word[3]);
            printf("published\n");
        } else {
            if (MQTT5)
                check(MQTTClient_disconnect5(client, 5000, MQTTREASONCODE_SUCCESS, NULL), "disconnect");
            else
                check(MQTTClient_disconnect(client, 5000), "disconnect");
            printf("disconnected\n");
            break;
        }
    }
    MQTTClient_destroy(&client);
    return 0;
}
